"""What a run asks: its questions with their knowledge, split and put into contexts.

Decided once and stored, so that a run that goes on asks exactly what it began with.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ....guard.files import atomic_writer, read_jsonl, write_json
from ...run import SCHEMA_VERSION, read_versioned
from ._artefacts import PlanFile, StoredCase, checked
from ._cases import PAPER_KINDS, Context, ContextKind, Knowledge, ScenarioCase, SuiteQuestion
from ._context_sets import ContextProblem, ContextSet
from ._datasets import Dataset
from ._knowledge import KnowledgeEstimate
from ._splits import build_cases, split_questions

TRAINING, EVALUATION = "training", "evaluation"
# Where the data has enough, 400 questions a side are kept; where not, three quarters.
_EVALUATION_SHARE = 0.75
_START_AGAIN = "remove the run folder and start again"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run asks.

    Attributes:
        training: cases that methods are trained and guards calibrated on.
        evaluation: cases that all methods answer.
        estimates: by data set and question id.
        problems: contexts that could not be built.
        grouped: whether no group is in both parts.
    """

    training: tuple[ScenarioCase, ...]
    evaluation: tuple[ScenarioCase, ...]
    estimates: Mapping[tuple[str, str], KnowledgeEstimate]
    problems: tuple[ContextProblem, ...]
    grouped: bool

    @property
    def cases(self) -> list[tuple[str, ScenarioCase]]:
        """Part and case, training first."""
        return [
            *((TRAINING, case) for case in self.training),
            *((EVALUATION, case) for case in self.evaluation),
        ]


def make_plan(
    dataset: Dataset,
    contexts: ContextSet,
    estimates: Mapping[str, KnowledgeEstimate],
    *,
    questions_per_side: int | None,
    seed: int,
) -> Plan:
    """Split the questions and put them into their contexts.

    Args:
        dataset: whose questions are asked.
        contexts: of all its questions.
        estimates: by question id.
        questions_per_side: at most that many known and as many unknown questions are
            evaluated, and undefined ones in proportion; None for all.
        seed: of the split.
    """
    knowledge = {name: estimate.knowledge for name, estimate in estimates.items()}
    split = split_questions(dataset, knowledge, evaluation_share=_EVALUATION_SHARE, seed=seed)
    evaluated = _limited(split.evaluation, knowledge, questions_per_side)
    trained = {question.id for question in split.training}
    cases = build_cases(dataset, contexts, knowledge)
    return Plan(
        training=tuple(
            case
            for case in cases
            if case.question.id in trained and case.context.kind in PAPER_KINDS
        ),
        evaluation=tuple(case for case in cases if case.question.id in evaluated),
        estimates={(dataset.name, name): estimate for name, estimate in estimates.items()},
        problems=tuple(contexts.problems),
        grouped=split.grouped,
    )


def _limited(
    questions: Sequence[SuiteQuestion], knowledge: Mapping[str, Knowledge], most: int | None
) -> set[str]:
    by_side: dict[Knowledge, list[str]] = defaultdict(list)
    for question in questions:
        by_side[knowledge[question.id]].append(question.id)
    if most is None:
        return {question.id for question in questions}
    larger = max(len(by_side[Knowledge.KNOWN]), len(by_side[Knowledge.UNKNOWN]))
    share = min(1.0, most / larger) if larger else 1.0
    room = {Knowledge.UNDEFINED: round(share * len(by_side[Knowledge.UNDEFINED]))}
    return {name for side, names in by_side.items() for name in names[: room.get(side, most)]}


def write_plan(
    folder: Path, plan: Plan, rows: int, left_out: Mapping[str, str] | None = None
) -> None:
    """Write `cases.jsonl`, then `plan.json`, which says that it is whole.

    Args:
        folder: of the run.
        plan: to store.
        rows: that the run will have.
        left_out: methods that do not answer, with the reason.
    """
    with atomic_writer(folder / "cases.jsonl") as stream:
        for part, case in plan.cases:
            line = json.dumps(_case_row(part, case, plan), ensure_ascii=False, allow_nan=False)
            stream.write(line + "\n")
    sides = Counter(estimate.knowledge.value for estimate in plan.estimates.values())
    write_json(
        folder / "plan.json",
        {
            "schema_version": SCHEMA_VERSION,
            "training_cases": len(plan.training),
            "evaluation_cases": len(plan.evaluation),
            "rows": rows,
            "grouped": plan.grouped,
            "knowledge": {side.value: sides[side.value] for side in Knowledge},
            "problems": [
                {"question_id": one.question_id, "kind": one.kind.value, "reason": one.reason}
                for one in plan.problems
            ],
            "left_out": dict(left_out or {}),
        },
    )


def read_plan(folder: Path) -> tuple[Plan, PlanFile] | None:
    """The stored plan; None where the run was stopped before it was whole.

    Raises:
        InputError: a file is broken.
    """
    path = folder / "plan.json"
    if not path.exists():
        return None
    stored = checked(
        PlanFile, read_versioned(path, hint=_START_AGAIN), where=str(path), hint=_START_AGAIN
    )
    parts: dict[str, list[ScenarioCase]] = {TRAINING: [], EVALUATION: []}
    estimates: dict[tuple[str, str], KnowledgeEstimate] = {}
    cases = folder / "cases.jsonl"
    for number, row in read_jsonl(cases):
        found = checked(StoredCase, row, where=f"{cases}:{number}", hint=_START_AGAIN)
        case = _case_from(found)
        parts[found.part].append(case)
        estimates[found.dataset, found.question_id] = KnowledgeEstimate(
            case.knowledge, found.samples_right, found.samples_drawn, found.knowledge_error
        )
    expected = (stored.training_cases, stored.evaluation_cases)
    if (len(parts[TRAINING]), len(parts[EVALUATION])) != expected:
        raise InputError("cases are missing", where=str(cases), hint=_START_AGAIN)
    problems = tuple(
        ContextProblem(one.question_id, ContextKind(one.kind), one.reason)
        for one in stored.problems
    )
    plan = Plan(
        tuple(parts[TRAINING]), tuple(parts[EVALUATION]), estimates, problems, stored.grouped
    )
    return plan, stored


def _case_row(part: str, case: ScenarioCase, plan: Plan) -> dict[str, Any]:
    question, context = case.question, case.context
    estimate = plan.estimates[question.dataset, question.id]
    return {
        "case_id": case.case_id,
        "part": part,
        "dataset": question.dataset,
        "question_id": question.id,
        "group": question.group,
        "question": question.question,
        "answers": list(question.answers),
        "context_kind": context.kind.value,
        "passages": list(context.passages),
        "context_answers": list(context.answers),
        "untrue_answers": list(context.untrue_answers),
        "knowledge": case.knowledge.value,
        "samples_right": estimate.right,
        "samples_drawn": estimate.drawn,
        "knowledge_error": estimate.error,
    }


def _case_from(found: StoredCase) -> ScenarioCase:
    return ScenarioCase(
        SuiteQuestion(found.question_id, found.question, found.answers, found.dataset, found.group),
        Context(
            ContextKind(found.context_kind),
            found.passages,
            found.context_answers,
            found.untrue_answers,
        ),
        Knowledge(found.knowledge),
    )
