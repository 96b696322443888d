"""From cases to the measured bias, resumable case by case."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...._version import __version__
from ....calibration import Interval, cohens_kappa, paired_difference, wilson_interval
from ....guard.errors import InputError, KnowgateError
from ...run import open_store, stored_rows
from ..conflict import BeliefCollector, BeliefSource, Believed, ConflictItem, PromptSet
from ._artefact import JudgeBias, write_judge_bias
from ._cases import BiasCase, BiasJudge, bias_cases

_AT_ONCE = 16
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """A case and the judge's verdict, None where there is none."""

    case: BiasCase
    right: bool | None


@dataclass(frozen=True, slots=True)
class JudgeBiasPlan:
    """What is measured.

    Attributes:
        items: questions with two answers, each with a passage.
        beliefs: how the judge's are found: `asked` of itself, or `given` with the data.
        data: how the artefact calls the questions.
        prompts: with which beliefs are asked.
    """

    items: Sequence[ConflictItem]
    beliefs: BeliefSource = "asked"
    data: str = ""
    prompts: PromptSet | None = None


def measure_judge_bias(
    judge: BiasJudge,
    plan: JudgeBiasPlan,
    path: str | os.PathLike[str],
    *,
    on_progress: Progress | None = None,
) -> JudgeBias:
    """Put the cases to a judge and write the artefact.

    Verdicts are kept in `<stem of the file>_cases.jsonl` beside it, and beliefs in
    `<stem>_beliefs.jsonl`: a killed measurement goes on where it stopped.

    Raises:
        InputError: no question has what is needed, the files hold another measurement, or
            cannot be written.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    mark = _mark(judge, plan)
    believed = _beliefs(judge, plan, file.with_name(f"{file.stem}_beliefs"), mark)
    cases = bias_cases(believed)
    if not cases:
        raise InputError(
            "the judge has no belief on any question with a passage for and against it",
            where=plan.data or "questions",
            hint="use other questions, or --beliefs given",
        )
    stem = file.with_name(f"{file.stem}_cases")
    with open_store(stem, key="case_id") as store:
        _check_mark(stem, mark)
        for begin in range(0, len(cases), _AT_ONCE):
            some = cases[begin : begin + _AT_ONCE]
            if any(case.case_id not in store.done for case in some):
                for case, verdict in zip(some, judge.judge(some), strict=True):
                    if case.case_id not in store.done:
                        store.append(_row(case, verdict, mark))
            if on_progress is not None:
                on_progress(len(store.done), len(cases))
    stored = {value["case_id"]: value.get("right") for _, value in stored_rows(stem)}
    bias = measure_bias(
        [CaseVerdict(case, stored[case.case_id]) for case in cases], judge=judge.name
    ).model_copy(
        update={
            "created_by": f"knowgate {__version__}",
            "fingerprint": judge.lm.fingerprint,
            "beliefs": plan.beliefs,
            "data": plan.data,
            "prompts": judge.prompts.sha256,
        }
    )
    write_judge_bias(bias, file)
    return bias


def measure_bias(verdicts: Sequence[CaseVerdict], *, judge: str) -> JudgeBias:
    """The numbers of a judge's verdicts; cases without one are left out and counted."""
    told = [(v.case, v.right) for v in verdicts if v.right is not None]
    conflicting = [(case, right) for case, right in told if case.conflicting]
    controls = [(case, right) for case, right in told if not case.conflicting]
    # In a conflict the wrong verdict is the believed one.
    disbelieved = [right for case, right in conflicting if case.label]
    believed = [right for case, right in conflicting if not case.label]
    return JudgeBias(
        judge=judge,
        questions=len({v.case.key for v in verdicts}),
        cases=len(told),
        no_verdict=len(verdicts) - len(told),
        kappa=cohens_kappa(
            ["right" if right else "wrong" for _, right in told],
            ["right" if case.label else "wrong" for case, _ in told],
            groups=[case.key for case, _ in told],
        ),
        follows_belief=_error_rate(conflicting),
        rejects_disbelieved=wilson_interval(
            sum(not right for right in disbelieved), len(disbelieved)
        ),
        accepts_believed=wilson_interval(sum(believed), len(believed)),
        control_errors=_error_rate(controls),
        belief_effect=_effect(conflicting, controls),
    )


_Told = Sequence[tuple[BiasCase, bool]]


def _error_rate(told: _Told) -> Interval:
    """Share of wrong verdicts; whole questions are drawn for the interval."""
    found = paired_difference(
        [case.label != right for case, right in told],
        [False] * len(told),
        groups=[case.key for case, _ in told],
    )
    if found.value is None or found.low is None or found.high is None:
        return found
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high), found.n)


def _effect(conflicting: _Told, controls: _Told) -> Interval:
    """Errors in conflicts minus errors in controls, of questions that have both."""
    first, second = _means(conflicting), _means(controls)
    keys = [key for key in first if key in second]
    return paired_difference([first[key] for key in keys], [second[key] for key in keys])


def _means(told: _Told) -> dict[str, float]:
    wrong: dict[str, list[bool]] = {}
    for case, right in told:
        wrong.setdefault(case.key, []).append(case.label != right)
    return {key: sum(errors) / len(errors) for key, errors in wrong.items()}


def _beliefs(judge: BiasJudge, plan: JudgeBiasPlan, stem: Path, mark: str) -> list[Believed]:
    collector = BeliefCollector(judge.lm, plan.prompts or PromptSet(), plan.beliefs)
    items = list(plan.items)
    with open_store(stem, key="key") as store:
        _check_mark(stem, mark)
        for begin in range(0, len(items), _AT_ONCE):
            some = items[begin : begin + _AT_ONCE]
            if any(item.key not in store.done for item in some):
                for row in collector.collect(some):
                    if row.key not in store.done:
                        store.append({**row.model_dump(mode="json"), "measurement": mark})
    found = {value["key"]: value.get("belief") for _, value in stored_rows(stem)}
    return [Believed(item, belief) for item in items if (belief := found.get(item.key)) is not None]


def _row(case: BiasCase, verdict: bool | KnowgateError, mark: str) -> dict[str, object]:
    row: dict[str, object] = {
        "case_id": case.case_id,
        "label": case.label,
        "believed": case.believed,
        "right": None,
        "error": None,
        "measurement": mark,
    }
    if isinstance(verdict, KnowgateError):
        return row | {"error": {"type": type(verdict).__name__, "detail": str(verdict)}}
    return row | {"right": verdict}


def _mark(judge: BiasJudge, plan: JudgeBiasPlan) -> str:
    texts = (judge.prompts.sha256, (plan.prompts or PromptSet()).sha256)
    made_of = (judge.name, judge.lm.fingerprint, plan.beliefs, texts, tuple(plan.items))
    return hashlib.sha256(repr(made_of).encode("utf-8", "replace")).hexdigest()[:16]


def _check_mark(stem: Path, mark: str) -> None:
    for where, value in stored_rows(stem):
        if value.get("measurement") != mark:
            raise InputError(
                "the file holds another measurement",
                where=where,
                hint="choose another --out, or remove the files beside it",
            )
