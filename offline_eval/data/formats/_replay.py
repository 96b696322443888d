"""Turn logs of replies into rows of a run, with contexts by reference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....guard.errors import InputError
from ...run import (
    CaseKind,
    Judgement,
    Question,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    RowError,
    StoredPassage,
)
from .. import QuestionRecord
from ._replay_log import LoggedPassage, LoggedReply, ReplayLog, read_replay_log
from ._run_parts import (
    InteropWarning,
    KnownBase,
    WarningCounter,
    base_of_records,
    by_reference,
    plain,
    shared_ids,
)


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """Logs of replies, as rows of a run.

    Attributes:
        bases: knowledge bases of the questions.
        systems: whose replies the logs hold, in the order of their first line.
        cases: one per question and kind that was asked, by id.
        replies: by id, in the order of the logs.
        judgements: labels that the logs give, of judge `given`.
        warnings: what was left out.
    """

    bases: Sequence[KnownBase]
    systems: Sequence[ReplySystem]
    cases: Mapping[str, ReplyCase]
    replies: Mapping[str, ReplyRow]
    judgements: Sequence[Judgement]
    warnings: Sequence[InteropWarning]


def read_logs(
    paths: Sequence[str | os.PathLike[str]],
    bases: Iterable[tuple[str, dict[str, Question], dict[str, StoredPassage]]] = (),
) -> LoggedRun:
    """Read logs of replies, and match them with the questions that they answer.

    Args:
        paths: of the logs, see `read_replay_log`.
        bases: knowledge bases that the questions are from: name, unique in the run; questions by
            the id in their file; passages by id. Without any, the questions and expected answers
            in the logs are used.

    Raises:
        InputError: a log cannot be read, ids and texts belong to different questions, no question
            is known, a case is answered twice by one system, or a question that the log says
            was left out is in its own context.
    """
    logs = [read_replay_log(path) for path in paths]
    known = [KnownBase(*base) for base in bases]
    return replay_rows(logs, known or list(bases_of_logs(logs)))


def replay_systems(logs: Sequence[ReplayLog]) -> tuple[ReplySystem, ...]:
    """The systems whose replies the logs hold, in the order of their first line."""
    found: dict[str, ReplySystem] = {}
    for log in logs:
        for reply in log.replies:
            system = logged_system(reply, log)
            found.setdefault(system.system_id, system)
    return tuple(found.values())


def logged_system(reply: LoggedReply, log: ReplayLog) -> ReplySystem:
    """Who gave a reply: `model·retrieval·prompt`, or the file's name where it says neither."""
    told = [reply.retrieval, reply.prompt] if reply.retrieval or reply.prompt else [log.path.stem]
    return ReplySystem(
        system_id="·".join(filter(None, [reply.model, *told])),
        model=reply.model,
        prompt=reply.prompt,
        retrieval=reply.retrieval,
        replayed=True,
    )


def bases_of_logs(logs: Sequence[ReplayLog]) -> tuple[KnownBase, ...]:
    """Knowledge bases of the questions and expected answers that the logs hold themselves.

    A question without an id goes by its text.

    Raises:
        InputError: one id with two texts, or a line with an id alone.
    """
    found: dict[str, dict[str, QuestionRecord]] = {}
    ids: dict[tuple[str, str], str] = {}
    for log in logs:
        for reply in log.replies:
            records = found.setdefault(reply.knowledge_base, {})
            if reply.question is None or not reply.question.strip():
                raise InputError(
                    "the line names its question by id alone",
                    where=reply.where,
                    hint="give the question document with --questions",
                )
            text = reply.knowledge_base, plain(reply.question)
            name = reply.question_id or ids.get(text) or _unused_id(records)
            ids.setdefault(text, name)
            known = records.get(name)
            if known is not None and plain(known.question) != plain(reply.question):
                raise InputError(
                    f"question {name[:60]!r} has another text than before",
                    where=reply.where,
                    hint="give the question documents with --questions",
                )
            if known is None or not known.answer:
                records[name] = QuestionRecord(name, reply.question, reply.expected_answer or "")
    shared = shared_ids(found.values())
    return tuple(base_of_records(name, records, shared) for name, records in found.items())


def _unused_id(records: Mapping[str, QuestionRecord]) -> str:
    number = len(records) + 1
    while f"q{number}" in records:
        number += 1
    return f"q{number}"


def replay_rows(logs: Sequence[ReplayLog], bases: Sequence[KnownBase]) -> LoggedRun:
    """The rows of logged replies; texts that contexts hold are added to the bases.

    Replies to unknown questions are left out with a warning.

    Raises:
        InputError: ids and texts that belong to different questions, no known question,
            a case answered twice by one system, or a question that the log says was left
            out in its own context.
    """
    building = _Building(bases)
    for log in logs:
        matched = [(reply, building.match(reply)) for reply in log.replies]
        building.reject_mismatches(log, matched)
        for reply, found in matched:
            if isinstance(found, tuple):
                building.add(logged_system(reply, log), reply, *found)
            else:
                detail = "the question documents do not hold this question; the reply is left out"
                building.warnings.add("unknown_question", str(log.path), reply.where, detail)
    if not building.replies:
        raise InputError(
            "no reply answers a question of the question documents",
            where=str(logs[0].path),
            hint="give the documents that the logged questions come from",
        )
    return LoggedRun(
        bases,
        replay_systems(logs),
        building.cases,
        building.replies,
        building.judgements,
        building.warnings.warnings(),
    )


@dataclass(slots=True)
class _Building:
    bases: Sequence[KnownBase]
    cases: dict[str, ReplyCase] = field(default_factory=dict)
    replies: dict[str, ReplyRow] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    warnings: WarningCounter = field(default_factory=WarningCounter)
    _where: dict[str, str] = field(default_factory=dict)

    def match(self, reply: LoggedReply) -> tuple[KnownBase, Question] | str | None:
        """Base and question; or the text of the question that has the id; or None."""
        named = [
            base for base in self.bases if base.name.casefold() == reply.knowledge_base.casefold()
        ]
        mismatch = None
        for base in named or self.bases:
            known = base.questions.get(reply.question_id or "")
            if known is None:
                continue
            if reply.question is None or plain(reply.question) == plain(known.question):
                return base, known
            mismatch = known.question
        if mismatch is not None:
            return mismatch
        for base in named or self.bases:
            known = base.asked(reply.question or "")
            if known is not None:
                return base, known
        return None

    def reject_mismatches(
        self, log: ReplayLog, matched: Sequence[tuple[LoggedReply, object]]
    ) -> None:
        wrong = [reply for reply, found in matched if isinstance(found, str)]
        if wrong:
            raise InputError(
                f"{len(wrong)} of {len(matched)} replies have the id of one question and the "
                f"text of another; the first is {(wrong[0].question_id or '')[:60]!r}",
                where=wrong[0].where,
                hint=f"give the question documents that {log.path.name} was made from",
            )

    def add(
        self, system: ReplySystem, reply: LoggedReply, base: KnownBase, question: Question
    ) -> None:
        context, own = self._context(reply, base, question)
        if own and reply.kind in (CaseKind.LEFT_OUT, CaseKind.SYNTHETIC):
            raise InputError(
                f"question {question.question_id[:60]!r} stands in its own context: it was not "
                "left out",
                where=reply.where,
                hint="use logs made under leave-one-out, or give kind in_kb",
            )
        # Its own answer in its context is what in_kb means, whether or not the log says so.
        kind = reply.kind or (CaseKind.IN_KB if own else CaseKind.LEFT_OUT)
        case_id = f"{question.question_id}/{kind.value}"
        reply_id = f"{system.system_id}/{case_id}"
        if reply_id in self.replies:
            raise InputError(
                f"a second reply of one system to question {question.question_id[:60]!r} "
                f"(the first: {self._where[reply_id]})",
                where=reply.where,
                hint="one system answers a question once; tell systems apart by the fields "
                "model, retrieval and prompt",
            )
        self.cases.setdefault(
            case_id,
            ReplyCase(
                case_id=case_id,
                question_id=question.question_id,
                kind=kind,
                knowledge_base=base.name,
            ),
        )
        self._where[reply_id] = reply.where
        self.replies[reply_id] = ReplyRow(
            reply_id=reply_id,
            case_id=case_id,
            system_id=system.system_id,
            context=context,
            response=reply.response,
            citation=reply.citation,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            error=RowError(type="LoggedFailure", detail=reply.failure) if reply.failure else None,
        )
        self._judge(reply_id, reply)

    def _judge(self, reply_id: str, reply: LoggedReply) -> None:
        for criterion, outcome in (
            (Judgement.ABSTENTION, reply.abstained),
            (Judgement.FACTUALITY, reply.factuality),
        ):
            if outcome is not None and reply.response is not None:
                self.judgements.append(
                    Judgement(
                        judgement_id=f"{reply_id}/{criterion}/{Judgement.GIVEN}",
                        reply_id=reply_id,
                        judge=Judgement.GIVEN,
                        criterion=criterion,
                        outcome=outcome,
                    )
                )

    def _context(
        self, reply: LoggedReply, base: KnownBase, question: Question
    ) -> tuple[ReplyContext, bool]:
        """The context by reference, and whether the question's own passage stands in it."""
        if reply.context is None:
            return ReplyContext(kind="unknown"), False
        if not reply.context:
            return ReplyContext(kind="none"), False
        names, own = [], False
        for entry in reply.context:
            named = base.questions.get(entry.passage_id or plain(entry.text or ""))
            name = named.own_passage if named else self._text_or_id(entry, base, reply)
            # Another question with the same answer may share the passage: ids decide.
            own = own or (named is question if named else name == question.own_passage)
            names.append(name)
        return by_reference(tuple(names), base), own

    def _text_or_id(self, entry: LoggedPassage, base: KnownBase, reply: LoggedReply) -> str:
        if entry.text is not None:
            return base.passage_id(entry.text)
        name = entry.passage_id or ""
        if name not in base.passages:
            file = reply.where.rpartition(":")[0]
            detail = f"the context names {name[:60]!r}, whose text nobody gave"
            self.warnings.add("unknown_context", file, reply.where, detail)
        return name
