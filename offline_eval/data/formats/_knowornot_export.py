"""Write a run of replies as documents that KnowOrNot can read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ...run import (
    CaseKind,
    Judgement,
    Question,
    RepliesRun,
    ReplyCase,
    ReplyRow,
    ReplySystem,
    RowError,
)
from ._knowornot_documents import CONTEXT_PARTS, check_document, prompt_text, write_document
from ._knowornot_experiments import (
    OTHER_CLIENT,
    Judged,
    KeptExperiment,
    QuestionKey,
    client_or_other,
    experiment_metadata,
    kept_experiments,
    time_or,
)
from ._knowornot_names import KINDS, REASONING, evaluator_of, judge_of, tags_as_text, text_as_tags
from ._knowornot_schemas import (
    NO_CITATION,
    AskedQuestion,
    Document,
    EvaluatedDocument,
    EvaluatedReply,
    EvaluationSpec,
    ExperimentMetadata,
    ExperimentQuestion,
    InputDocument,
    ModelReply,
    NamedPrompt,
    NumberedQuestion,
    OutputDocument,
    QuestionDocument,
    QuestionEntry,
    SavedReply,
    Verdict,
)
from ._run_parts import OnWarning, WarningCounter


def judge(
    documents: Sequence[Judged], replies: Mapping[QuestionKey, ReplyRow]
) -> tuple[list[dict[str, Any]], list[Judgement]]:
    """What the evaluated documents of one experiment made of its replies.

    The first evaluator of a criterion is judge `given`; a second one, with another model
    or prompt, is `given:<model>`; judges of ours keep their names.

    Args:
        documents: in the order in which they were named.
        replies: of the experiment.

    Returns:
        How it was judged, JSON-ready, one entry per document and criterion; and the
        judgements.

    Raises:
        InputError: two verdicts of one evaluator contradict each other.
    """
    judging = _Judging()
    for document in documents:
        for key, verdict in document.verdicts:
            judging.add(document, replies[key].reply_id, verdict)
        judging.keep_specs(document)
    return judging.specs, list(judging.judgements.values())


@dataclass(slots=True)
class _Judging:
    specs: list[dict[str, Any]] = field(default_factory=list)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    _evaluators: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)

    def add(self, document: Judged, reply_id: str, verdict: Verdict) -> None:
        criterion = verdict.evaluation_name
        spec = document.specs.get(criterion)
        name = self._judge(criterion, spec)
        outcome = verdict.evaluation_outcome.strip()
        if criterion == Judgement.ABSTENTION and outcome.casefold() in ("yes", "no"):
            outcome = outcome.casefold()
        content = spec.evaluation_prompt.content if spec else ""
        judgement = Judgement(
            judgement_id=f"{reply_id}/{criterion}/{name}",
            reply_id=reply_id,
            judge=name,
            criterion=criterion,
            outcome=outcome or None,
            reasoning=tags_as_text(verdict.additional_tags_info),
            estimate=name == Judgement.ESTIMATE,
            judge_sha256=hashlib.sha256(content.encode()).hexdigest() if content else "",
            error=None if outcome else RowError(type="NoOutcome", detail="logged without one"),
        )
        known = self.judgements.setdefault(judgement.judgement_id, judgement)
        if known.outcome != judgement.outcome:
            raise InputError(
                f"two verdicts of one judge on {criterion[:60]!r} contradict each other",
                where=document.where,
                hint="import evaluations of one output by one judge into different folders",
            )

    def keep_specs(self, document: Judged) -> None:
        """Note how a document was judged, for writing it again."""
        times: dict[str, str] = {}
        for _, verdict in document.verdicts:
            times.setdefault(verdict.evaluation_name, verdict.evaluation_timestamp)
        for criterion, spec in document.specs.items():
            entry = {
                **spec.model_dump(mode="json"),
                "judge": self._judge(criterion, spec),
                "path_to_store": document.path_to_store,
                "first_timestamp": times.get(criterion, ""),
            }
            same = {"evaluation_name": criterion, "judge": entry["judge"]}
            if not any(same.items() <= kept.items() for kept in self.specs):
                self.specs.append(entry)

    def _judge(self, criterion: str, spec: EvaluationSpec | None) -> str:
        model, prompt = (spec.evaluator_model, spec.evaluation_prompt.content) if spec else ("", "")
        ours = judge_of(model)
        if ours is not None:
            return ours
        known = self._evaluators.setdefault(criterion, {})
        if (model, prompt) not in known:
            name, number = Judgement.GIVEN, 1
            while name in known.values():
                name = f"{Judgement.GIVEN}:{model}" + (f"·{number}" if number > 1 else "")
                number += 1
            known[model, prompt] = name
        return known[model, prompt]


_OUTCOMES = {Judgement.ABSTENTION: ("yes", "no"), Judgement.FACTUALITY: Judgement.TIERS}


def evaluated_documents(
    run: RepliesRun,
    metadata: ExperimentMetadata,
    saved: Mapping[str, SavedReply],
    kept: KeptExperiment,
    made: datetime,
) -> dict[str, EvaluatedDocument]:
    """One document per judge, by what tells its file apart: nothing for the judge `given`.

    Judges are not mixed: KnowOrNot knows an evaluation by its criterion alone.
    Judgements that failed are left out.

    Args:
        run: whose judgements.
        metadata: of the experiment.
        saved: its replies by their ids in the run.
        kept: what an import kept.
        made: when the run was made, for judgements that have no time.
    """
    by_judge: dict[str, dict[str, list[Judgement]]] = {}
    for judgement in run.judgements.values():
        if judgement.reply_id in saved and judgement.outcome is not None:
            rows = by_judge.setdefault(judgement.judge, {})
            rows.setdefault(judgement.reply_id, []).append(judgement)
    names = sorted(by_judge, key=lambda name: (name != Judgement.GIVEN, name))
    return {
        "" if name == Judgement.GIVEN else f"_{name}": _document(
            name, by_judge[name], metadata, saved, kept, made
        )
        for name in names
    }


def _document(
    judge: str,
    judgements: Mapping[str, Sequence[Judgement]],
    metadata: ExperimentMetadata,
    saved: Mapping[str, SavedReply],
    kept: KeptExperiment,
    made: datetime,
) -> EvaluatedDocument:
    mine = {one.spec.evaluation_name: one for one in kept.specs if one.judge == judge}
    times = {name: time_or(one.first_timestamp, made.isoformat()) for name, one in mine.items()}
    grouped: dict[str, list[Judgement]] = {}
    for rows in judgements.values():
        for row in rows:
            grouped.setdefault(row.criterion, []).append(row)
    specs = {
        criterion: _strict(mine[criterion].spec)
        if criterion in mine
        else _spec(judge, criterion, rows)
        for criterion, rows in grouped.items()
    }
    responses = tuple(
        EvaluatedReply(
            llm_response=reply,
            evaluations=tuple(
                _verdict(
                    row, reply, specs[row.criterion], times.get(row.criterion, made.isoformat())
                )
                for row in judgements.get(reply_id, ())
            ),
        )
        for reply_id, reply in saved.items()
    )
    return EvaluatedDocument(
        path_to_store=next((one.path_to_store for one in mine.values()), ""),
        experiment_metadata=metadata,
        evaluation_metadata=tuple(specs.values()),
        responses=responses,
    )


def _strict(spec: EvaluationSpec) -> EvaluationSpec:
    return spec.model_copy(
        update={
            "evaluator_client_enum": client_or_other(spec.evaluator_client_enum),
            "in_context": tuple(part for part in spec.in_context if part in CONTEXT_PARTS),
        }
    )


def _spec(judge: str, criterion: str, rows: Sequence[Judgement]) -> EvaluationSpec:
    """How a judge of ours judged; its prompt is known by hash alone."""
    outcomes = _OUTCOMES.get(criterion) or sorted({row.outcome or "" for row in rows})
    sha256 = next((row.judge_sha256 for row in rows if row.judge_sha256), "")
    return EvaluationSpec(
        evaluation_name=criterion,
        evaluator_client_enum=OTHER_CLIENT,
        evaluator_model=evaluator_of(judge),
        evaluation_prompt=NamedPrompt(identifier=f"{judge} {sha256[:12]}".strip()),
        tag_name=criterion,
        evaluation_outcomes_list=tuple(outcomes),
        in_context=("question", "expected_answer"),
        additional_tags=(REASONING,) if any(row.reasoning for row in rows) else (),
    )


def _verdict(row: Judgement, reply: SavedReply, spec: EvaluationSpec, time: str) -> Verdict:
    return Verdict(
        evaluation_id=f"{row.criterion}_{time}_{reply.identifier}_{spec.evaluator_model}",
        evaluation_timestamp=time,
        evaluation_name=row.criterion,
        evaluation_outcome=row.outcome or "",
        additional_tags_info=text_as_tags(row.reasoning, spec.additional_tags),
    )


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 120


def export_knowornot(
    run_folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    on_warning: OnWarning | None = None,
) -> list[Path]:
    """Write a run of replies as KnowOrNot's documents.

    Per knowledge base a question document; per system, knowledge base and experiment
    type an input and an output document, and an evaluated document per judge. Replies
    to cases whose answer the knowledge base holds are left out: KnowOrNot has no name
    for them. Failed replies stand in the input document only.

    Args:
        run_folder: a run of replies.
        out: folder; made where missing, files of the same names are replaced.
        on_warning: called with what was left out.

    Returns:
        The files, in the order in which they were written.

    Raises:
        InputError: no run of replies there, or a file cannot be written.
    """
    run = RepliesRun.read(run_folder)
    warnings = WarningCounter()
    documents = knowornot_documents(run, warnings)
    # All is checked before the first file is written.
    for name, document in documents.items():
        check_document(document, where=name)
    paths = []
    for name, document in documents.items():
        paths.append(Path(out) / name)
        write_document(paths[-1], document)
    for warning in warnings.warnings():
        if on_warning is not None:
            on_warning(warning)
    return paths


def knowornot_documents(run: RepliesRun, warnings: WarningCounter) -> dict[str, Document]:
    """What `export_knowornot` writes, by file name."""
    manifest = run.folder / "manifest.json"
    # Without a zone, as all times in KnowOrNot's files are.
    made = datetime.fromtimestamp(manifest.stat().st_mtime, UTC).replace(microsecond=0, tzinfo=None)
    writing = _Writing(run, made)
    for base in dict.fromkeys(question.knowledge_base for question in run.questions.values()):
        writing.questions(base)
    kept = kept_experiments(run.manifest.settings)
    for (system, base, kind), rows in _groups(run, warnings).items():
        writing.experiment(
            run.systems[system], base, kind, rows, kept.get((system, base, kind), KeptExperiment())
        )
    return writing.documents


_Rows = list[tuple[ReplyCase, ReplyRow]]


def _groups(run: RepliesRun, warnings: WarningCounter) -> Mapping[tuple[str, str, CaseKind], _Rows]:
    """Replies by system, knowledge base and kind, in the order of systems and cases."""
    by_case: dict[tuple[str, str], ReplyRow] = {
        (reply.system_id, reply.case_id): reply for reply in run.replies.values()
    }
    groups: dict[tuple[str, str, CaseKind], _Rows] = {}
    for system in run.systems:
        for case in run.cases.values():
            reply = by_case.get((system, case.case_id))
            if reply is None:
                continue
            if case.kind not in KINDS.values():
                detail = "KnowOrNot has no experiments whose answer is known; replies left out"
                warnings.add("in_kb_left_out", system, system, detail)
                continue
            groups.setdefault((system, case.knowledge_base, case.kind), []).append((case, reply))
    return groups


@dataclass(slots=True)
class _Writing:
    run: RepliesRun
    made: datetime
    documents: dict[str, Document] = field(default_factory=dict)
    _passages: dict[str, QuestionEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own: dict[str, Question] = {}
        for question in self.run.questions.values():
            own.setdefault(question.own_passage, question)
        for name, passage in self.run.passages.items():
            self._passages[name] = _entry(passage.text, name, own.get(name))

    def questions(self, base: str) -> None:
        """The question document of a knowledge base: what has an answer."""
        entries = tuple(
            NumberedQuestion(
                identifier=_local(question.question_id, base),
                question=question.question,
                answer=question.answer,
            )
            for question in self.run.questions.values()
            if question.knowledge_base == base and question.answer.strip()
        )
        if entries:
            name = self._name([base, "questions"], "")
            self.documents[name] = QuestionDocument(
                path_to_store=name,
                knowledge_base_identifier=base,
                creation_timestamp=self.made.isoformat(),
                questions=entries,
            )

    def experiment(
        self,
        system: ReplySystem,
        base: str,
        kind: CaseKind,
        rows: Sequence[tuple[ReplyCase, ReplyRow]],
        kept: KeptExperiment,
    ) -> None:
        """Input, output and evaluated documents of one system."""
        type_of = next(name for name, one in KINDS.items() if one is kind)
        stem = [base, type_of, *system.system_id.split("·")]
        input_name = self._name(stem, "_input")
        output_name = self._name(stem, "_output")
        metadata = experiment_metadata(
            system,
            [reply.context for _, reply in rows],
            kept,
            ExperimentMetadata(
                experiment_type="synthetic" if kind is CaseKind.SYNTHETIC else "removal",
                input_path=input_name,
                output_path=output_name,
                creation_timestamp=self.made.isoformat(),
                knowledge_base_identifier=base,
            ),
        )
        asked = {
            reply.reply_id: self._asked(case, reply, metadata.system_prompt.content)
            for case, reply in rows
        }
        saved = {
            reply.reply_id: _saved(reply, asked[reply.reply_id], self.made)
            for _, reply in rows
            if reply.response is not None
        }
        self.documents[input_name] = InputDocument(
            metadata=metadata, questions=tuple(asked.values())
        )
        self.documents[output_name] = OutputDocument(
            metadata=metadata, responses=tuple(saved.values())
        )
        for judge, document in evaluated_documents(
            self.run, metadata, saved, kept, self.made
        ).items():
            name = self._name(stem, f"_evaluated{judge}")
            stored = document.path_to_store or name
            self.documents[name] = document.model_copy(update={"path_to_store": stored})

    def _asked(self, case: ReplyCase, reply: ReplyRow, system_prompt: str) -> ExperimentQuestion:
        question = self.run.questions[case.question_id]
        context: tuple[QuestionEntry, ...] | None = None
        if reply.context is not None and reply.context.kind in ("passages", "all_but"):
            context = tuple(
                self._passages[passage.passage_id] for passage in self.run.context_passages(reply)
            )
        return ExperimentQuestion(
            prompt_to_llm=prompt_text(system_prompt, question.question, context),
            source_context_qa=AskedQuestion(
                identifier=_local(question.question_id, case.knowledge_base),
                question=question.question,
                expected_answer=question.answer,
                context_questions=context,
            ),
        )

    def _name(self, parts: Iterable[str], ending: str) -> str:
        """A file name that no other document has, also where case does not count."""
        safe = "_".join(filter(None, (_UNSAFE.sub("-", part).strip("-.") for part in parts)))
        tail = _UNSAFE.sub("-", ending)
        taken = {name.casefold() for name in self.documents}
        name, number = f"{safe[:_LONGEST_NAME]}{tail}.json", 1
        while name.casefold() in taken:
            number += 1
            name = f"{safe[:_LONGEST_NAME]}-{number}{tail}.json"
        return name


def _entry(text: str, passage_id: str, question: Question | None) -> QuestionEntry:
    """A passage as question and answer, which is what KnowOrNot's contexts are made of."""
    if question is not None:
        name = _local(question.question_id, question.knowledge_base)
        if text == f"{question.question}\n{question.answer}":
            return QuestionEntry(
                question=question.question, answer=question.answer, identifier=name
            )
        return QuestionEntry(question="", answer=text, identifier=name)
    first, line, rest = text.partition("\n")
    if not line:
        return QuestionEntry(question="", answer=text, identifier=passage_id)
    return QuestionEntry(question=first, answer=rest, identifier=passage_id)


def _saved(reply: ReplyRow, asked: ExperimentQuestion, made: datetime) -> SavedReply:
    context = asked.source_context_qa.context_questions or ()
    text = reply.citation or ""
    citation = int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else NO_CITATION
    cited = None
    if isinstance(citation, int) and 0 <= citation < len(context):
        cited = context[citation]
    return SavedReply(
        identifier=f"{asked.source_context_qa.identifier}_{made:%Y%m%d%H%M%S}",
        experiment_input=asked,
        llm_response=ModelReply(response=reply.response or "", citation=citation),
        cited_QA=cited,
    )


def _local(identifier: str, base: str) -> str:
    """The id as its own knowledge base has it; see `unique_id`."""
    return (identifier.removeprefix(f"{base}/") if base else identifier) or identifier
