"""Read sample logs of the lm-evaluation-harness into a run of replies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....guard.errors import InputError
from ...run import (
    CaseKind,
    Judgement,
    Question,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from ._lm_eval_samples import Sample, SampleLog, read_samples
from ._run_parts import (
    KnownBase,
    OnWarning,
    RunParts,
    WarningCounter,
    input_files,
    plain,
    write_run,
)

LM_EVAL_JUDGE = "lm-eval"
_UNNAMED_MODEL = "lm-eval"


def import_lm_eval(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    model: str | None = None,
    on_warning: OnWarning | None = None,
) -> Path:
    """Make a run of replies from sample logs.

    A reply is the first filtered response, for multiple choice the likeliest choice;
    metrics become judgements of judge `lm-eval`, with the number as outcome. A task is
    a knowledge base, and its cases are answerable ones: `in_kb`.

    Args:
        files: `samples_*.jsonl`, of any tasks and models.
        out: run folder; done again with the same files, it changes nothing.
        model: its name; by default that of the folder, as the harness names it.
        on_warning: called with what was left out.

    Returns:
        The run folder.

    Raises:
        InputError: a file cannot be read, holds no replies, answers a document twice, or
            the folder holds something else.
    """
    return write_run(out, lm_eval_parts(files, model=model), on_warning=on_warning)


def lm_eval_parts(files: Sequence[str | os.PathLike[str]], *, model: str | None = None) -> RunParts:
    """What `import_lm_eval` writes, in memory.

    Raises:
        InputError: as there.
    """
    building = _Building()
    for path in files:
        log = read_samples(path)
        building.add(log, model or log.model or _UNNAMED_MODEL)
    if not building.replies:
        raise InputError(
            "these logs hold no reply: their requests ask for no answer",
            where=os.fspath(files[0]) if files else "lm-eval",
            hint="name samples of a generation or multiple-choice task",
        )
    return RunParts(
        settings={"source": "lm-eval"},
        systems=list(building.systems.values()),
        questions=list(building.questions.values()),
        passages=[one for base in building.bases.values() for one in base.passages.values()],
        cases=list(building.cases.values()),
        replies=list(building.replies.values()),
        judgements=list(building.judgements.values()),
        inputs=input_files(files),
        warnings=building.warnings.warnings(),
    )


@dataclass(slots=True)
class _Building:
    systems: dict[str, ReplySystem] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    bases: dict[str, KnownBase] = field(default_factory=dict)
    cases: dict[str, ReplyCase] = field(default_factory=dict)
    replies: dict[str, ReplyRow] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    warnings: WarningCounter = field(default_factory=WarningCounter)

    def add(self, log: SampleLog, model: str) -> None:
        self.systems.setdefault(model, ReplySystem(system_id=model, model=model, replayed=True))
        first_filter: dict[str, str] = {}
        seen: set[tuple[str, str]] = set()
        for sample in log.samples:
            if sample.response is None:
                detail = "the request asks for no answer, so that there is no reply"
                self.warnings.add("not_a_reply", str(log.path), sample.where, detail)
                continue
            if (sample.doc_id, sample.filter) in seen:
                raise _twice(sample)
            seen.add((sample.doc_id, sample.filter))
            case_id = self._case(log.task, sample)
            reply_id = f"{model}/{case_id}"
            filtered_first = first_filter.setdefault(sample.doc_id, sample.filter)
            if filtered_first == sample.filter:
                if reply_id in self.replies:
                    raise _twice(sample)
                self._reply(reply_id, case_id, model, log.task, sample)
            self._judge(reply_id, sample, second=filtered_first != sample.filter)

    def _case(self, task: str, sample: Sample) -> str:
        """The case of a document; its question is the same for all models."""
        question_id = f"{task}/{sample.doc_id}"
        question = Question(
            question_id=question_id,
            question=sample.question,
            answer=sample.expected,
            knowledge_base=task,
        )
        known = self.questions.setdefault(question_id, question)
        if plain(known.question) != plain(question.question):
            raise InputError(
                f"document {sample.doc_id[:40]!r} asks something else than in another log",
                where=sample.where,
                hint="import logs of different versions of a task into different folders",
            )
        case_id = f"{question_id}/{CaseKind.IN_KB.value}"
        self.cases.setdefault(
            case_id,
            ReplyCase(
                case_id=case_id,
                question_id=question_id,
                kind=CaseKind.IN_KB,
                knowledge_base=task,
            ),
        )
        return case_id

    def _reply(self, reply_id: str, case_id: str, model: str, task: str, sample: Sample) -> None:
        context = ReplyContext()
        if sample.context is not None:
            base = self.bases.setdefault(task, KnownBase(task, {}, {}))
            name = base.passage_id(sample.context)
            base.passages[name] = StoredPassage(
                passage_id=name, text=base.passages[name].text, knowledge_base=task
            )
            context = ReplyContext(kind="passages", passages=(name,))
        self.replies[reply_id] = ReplyRow(
            reply_id=reply_id,
            case_id=case_id,
            system_id=model,
            context=context,
            response=sample.response,
        )

    def _judge(self, reply_id: str, sample: Sample, *, second: bool) -> None:
        for metric, value in sample.metrics.items():
            # The harness's own way to tell the filters of a metric apart.
            criterion = f"{metric},{sample.filter}" if second else metric
            name = f"{reply_id}/{criterion}/{LM_EVAL_JUDGE}"
            self.judgements[name] = Judgement(
                judgement_id=name,
                reply_id=reply_id,
                judge=LM_EVAL_JUDGE,
                criterion=criterion,
                outcome=f"{value:.12g}",
                probability=value if 0.0 <= value <= 1.0 else None,
            )


def _twice(sample: Sample) -> InputError:
    return InputError(
        f"document {sample.doc_id[:40]!r} is answered twice by one model",
        where=sample.where,
        hint="import one log per model and task, or tell the models apart with --model",
    )
