"""Collect the rows of an imported run of replies, and write them as a run."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ....guard.files import AnyPath
from ...run import Question, RepliesRun
from ...run.manifest import InputFile
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyCase, ReplyContext, ReplyRow, ReplySystem, StoredPassage
from ..bases import question_of
from ..questions import QuestionRecord

# Names of retrievals here, by those of logs in small letters.
RETRIEVALS = {name: name for name in ("basic_rag", "direct", "hyde", "long_context")}
RETRIEVALS |= {"hyde_rag": "hyde", "long_in_context": "long_context"}
# Called with a sentence on what was left out of a file.
OnWarning = Callable[[str], None]


class KnownBase:
    """A knowledge base under the ids of its own file.

    Args:
        name: unique in the run.
        questions: by the id in the file, or by id and text where ids are used again; the values
            carry ids that are unique in the run.
        passages: by id, unique in the run.

    Attributes:
        questions: as given.
        passages: as given, and texts of logged contexts, as passages of no knowledge base.
        order: ids of the passages that are its own, in their order.
    """

    def __init__(
        self, name: str, questions: Mapping[str, Question], passages: Mapping[str, StoredPassage]
    ) -> None:
        self.name, self.questions, self.passages = name, dict(questions), dict(passages)
        self.order = tuple(passages)
        # Of equal texts the first counts.
        self._by_question = {plain(one.question): one for one in reversed(self.questions.values())}
        self._by_text = {
            plain(one.text): one.passage_id for one in reversed(self.passages.values())
        }

    def asked(self, text: str) -> Question | None:
        """Return the question of this text, white space aside."""
        return self._by_question.get(plain(text))

    def passage_id(self, text: str) -> str:
        """Return the id of the passage of this text, white space aside; added where it is new."""
        key = plain(text)
        if key not in self._by_text:
            digest = hashlib.sha256(key.encode()).hexdigest()[:16]
            name = f"{self.name}/text-{digest}" if self.name else f"text-{digest}"
            # Of no knowledge base: "all but these" must not come to mean more.
            self.passages[name] = StoredPassage(passage_id=name, text=text)
            self._by_text[key] = name
        return self._by_text[key]

    def context(self, names: tuple[str, ...]) -> ReplyContext:
        """Return the shortest way to say it: these passages, or all of its own but a few.

        Args:
            names: ids of passages, in the order in which they stood.
        """
        if self.name and 2 * len(names) > len(self.order):
            present = frozenset(names)
            if names == tuple(name for name in self.order if name in present):
                gone = tuple(name for name in self.order if name not in present)
                return ReplyContext(kind="all_but", passages=gone)
        return ReplyContext(kind="passages", passages=names)


def plain(text: str) -> str:
    """Return a text with all white space alike, for comparing."""
    return " ".join(text.split())


def known_bases(records: Mapping[str, Mapping[str, QuestionRecord]]) -> dict[str, KnownBase]:
    """Make knowledge bases, by name, of what logs say about their questions.

    Args:
        records: by name of the knowledge base and what tells its questions apart; an empty answer
            is an unknown one, and makes no passage.
    """
    counts = Counter(one.question_id for found in records.values() for one in found.values())
    bases = {}
    for name, found in records.items():
        questions, passages = {}, {}
        for key, record in found.items():
            # Of an id that several bases use, the name of the base tells which.
            own = record.question_id
            unique = f"{name}/{own}" if counts[own] > 1 else own
            text = f"{record.question}\n{record.answer}" if record.answer.strip() else ""
            questions[key] = question_of(name, replace(record, question_id=unique), unique, text)
            if text:
                passages[unique] = StoredPassage(passage_id=unique, text=text, knowledge_base=name)
        bases[name] = KnownBase(name, questions, passages)
    return bases


@dataclass(slots=True)
class ReplyRows:
    """Rows of a run of replies by id, as an import collects them.

    Attributes:
        systems: who answered.
        cases: one per question and kind that was asked.
        replies: of those systems to those cases.
        judgements: that came along.
    """

    systems: dict[str, ReplySystem] = field(default_factory=dict)
    cases: dict[str, ReplyCase] = field(default_factory=dict)
    replies: dict[str, ReplyRow] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    _warned: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    # Of each reply, where it was read first.
    _places: dict[str, str] = field(default_factory=dict)

    def reply(
        self, where: str, system: ReplySystem, question: Question, kind: CaseKind, **fields: Any
    ) -> ReplyRow:
        """Add the reply of a system to a question; system and case are added where they are new.

        Raises:
            InputError: there is one from elsewhere, or another system is called the same.
        """
        own = {"question_id": question.question_id, "knowledge_base": question.knowledge_base}
        case_id, system_id = f"{question.question_id}/{kind.value}", system.system_id
        self.cases.setdefault(case_id, ReplyCase(case_id=case_id, kind=kind, **own))
        row = ReplyRow(
            reply_id=f"{system_id}/{case_id}", case_id=case_id, system_id=system_id, **fields
        )
        first = self._places.setdefault(row.reply_id, where)
        other = self.systems.setdefault(system_id, system) != system
        if other or row.reply_id in self.replies:
            what = f"a second reply of {system_id[:80]!r} to question "
            what += f"{question.question_id[:60]!r} (the first: {first})"
            raise _apart(what, where)
        self.replies[row.reply_id] = row
        return row

    def judgement(
        self, where: str, reply_id: str, criterion: str, judge: str, **fields: Any
    ) -> None:
        """Add the judgement of a reply.

        Raises:
            InputError: the judge said something else before.
        """
        judgement = Judgement(
            judgement_id=f"{reply_id}/{criterion}/{judge}",
            reply_id=reply_id,
            judge=judge,
            criterion=criterion,
            **fields,
        )
        kept = self.judgements.setdefault(judgement.judgement_id, judgement)
        if kept.outcome != judgement.outcome:
            what = f"two verdicts of one judge on {criterion[:60]!r} contradict each other"
            raise _apart(what, where)

    def warn(self, where: str, what: str, detail: str = "") -> None:
        """Count one more thing that was left out: a warning per file and what it is.

        Args:
            where: file, and line where there is one.
            what: that was left out.
            detail: in the place of `what` for the first one.
        """
        key = re.sub(r":\d+$", "", where), what
        first, times = self._warned.get(key, (f"{where}: {detail or what}", 0))
        self._warned[key] = first, times + 1

    @property
    def warnings(self) -> list[str]:
        """All warnings, in the order in which each was first met, with the first place of each."""
        return [
            f"{first} ({times} times)" if times > 1 else first
            for first, times in self._warned.values()
        ]

    def write(
        self,
        out: AnyPath,
        *,
        settings: Mapping[str, Any],
        questions: Sequence[Question],
        bases: Iterable[KnownBase],
        files: Sequence[AnyPath],
        on_warning: OnWarning | None = None,
    ) -> Path:
        """Write the rows as a run of replies; done again with the same rows, it changes nothing.

        Args:
            out: folder; made where missing.
            settings: JSON-ready; where the rows came from.
            questions: of the cases, and others of their knowledge bases.
            bases: whose passages are stored.
            files: that were read.
            on_warning: called with each warning once all is written.

        Raises:
            InputError: the folder holds something else, or cannot be written.
        """
        root = RepliesRun.start(
            out,
            settings=settings,
            systems=list(self.systems.values()),
            questions=questions,
            passages=[passage for base in bases for passage in base.passages.values()],
            cases=list(self.cases.values()),
            replies=len(self.replies),
            inputs=[InputFile.of(path) for path in files],
        )
        with RepliesRun.REPLIES.open(root) as replies:
            replies.extend(self.replies.values())
        with RepliesRun.JUDGEMENTS.open(root) as judgements:
            judgements.extend(self.judgements.values())
        if on_warning is not None:
            for warning in self.warnings:
                on_warning(warning)
        return root


def _apart(what: str, where: str) -> InputError:
    hint = "tell the systems apart by model, retrieval and prompt, or import into other folders"
    return InputError(what, where=where, hint=hint)


def replayed(
    model: str, retrieval: str, prompt: str, *, file: str = "", prompt_sha256: str = ""
) -> ReplySystem:
    """Return who replied: `model·retrieval·prompt`, or with the file's name for want of both.

    Args:
        model: its name.
        retrieval: as any tool calls it; empty where unknown.
        prompt: its name; empty where unknown.
        file: name of the log.
        prompt_sha256: of the prompt's text, where that is known.
    """
    retrieval = RETRIEVALS.get(retrieval.lower(), retrieval)
    told = [model or "unknown", retrieval, prompt]
    told += [] if retrieval or prompt else [file]
    return ReplySystem(
        system_id="·".join(filter(None, told)),
        model=model,
        prompt=prompt,
        prompt_sha256=prompt_sha256,
        retrieval=retrieval,
        replayed=True,
    )
