"""The numbers of a judge's verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ....calibration import Interval
from ...judging import cohens_kappa
from ._artefact import JudgeBias


class Verdict(Protocol):
    """A case and the judge's verdict, None where there is none."""

    @property
    def key(self) -> str:
        """Key of the question."""
        ...

    @property
    def label(self) -> bool:
        """Whether the reply is right by the context."""
        ...

    @property
    def conflicting(self) -> bool:
        """Whether a judge that goes by its belief judges wrongly."""
        ...

    @property
    def right(self) -> bool | None:
        """The verdict."""
        ...


def measure_bias(verdicts: Sequence[Verdict], *, judge: str) -> JudgeBias:
    """Compute the numbers of a judge's verdicts; cases without one are counted and left out."""
    told = [(v, v.right) for v in verdicts if v.right is not None]
    conflicting = [(case, right) for case, right in told if case.conflicting]
    controls = [(case, right) for case, right in told if not case.conflicting]
    # In a conflict the wrong verdict is the believed one.
    disbelieved = [right for case, right in conflicting if case.label]
    believed = [right for case, right in conflicting if not case.label]
    return JudgeBias(
        judge=judge,
        questions=len({v.key for v in verdicts}),
        cases=len(told),
        no_verdict=len(verdicts) - len(told),
        kappa=cohens_kappa(
            ["right" if right else "wrong" for _, right in told],
            ["right" if case.label else "wrong" for case, _ in told],
            groups=[case.key for case, _ in told],
        ),
        follows_belief=_error_rate(conflicting),
        rejects_disbelieved=Interval.wilson(
            sum(not right for right in disbelieved), len(disbelieved)
        ),
        accepts_believed=Interval.wilson(sum(believed), len(believed)),
        control_errors=_error_rate(controls),
        belief_effect=_effect(conflicting, controls),
    )


_Told = Sequence[tuple[Verdict, bool]]


def _error_rate(told: _Told) -> Interval:
    """Compute the share of wrong verdicts; the interval resamples whole questions."""
    found = Interval.paired_difference(
        [case.label != right for case, right in told],
        [False] * len(told),
        groups=[case.key for case, _ in told],
    )
    if found.value is None or found.low is None or found.high is None:
        return found
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high), found.n)


def _effect(conflicting: _Told, controls: _Told) -> Interval:
    """Compute errors in conflicts minus errors in controls, of questions that have both."""
    first, second = _means(conflicting), _means(controls)
    keys = [key for key in first if key in second]
    return Interval.paired_difference([first[key] for key in keys], [second[key] for key in keys])


def _means(told: _Told) -> dict[str, float]:
    wrong: dict[str, list[bool]] = {}
    for case, right in told:
        wrong.setdefault(case.key, []).append(case.label != right)
    return {key: sum(errors) / len(errors) for key, errors in wrong.items()}
