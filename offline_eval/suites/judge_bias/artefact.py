"""`judge_bias.json`: how far a judge follows its own beliefs instead of the context."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ....calibration import Interval
from ....guard.errors import InputError
from ....guard.files import write_json
from ....guard.read_models import check_model
from ...judging.chance_agreement import cohens_kappa
from ...report.prose import Templates
from ...run import RowError, Stored
from ...run.manifest import Manifest
from ..parts import paired, share_of

TEXTS = Templates(Path(__file__).parent / "report.txt")
_SCHEMA_VERSION = 1
_RUN_FILE, _KIND = "judge_bias.json", "judge_biases"
# From here on a reader is warned.
_MUCH, _POOR_KAPPA, _FEW = 0.05, 0.6, 30
_HINT_OF_RUN = "remove it, and give `knowgate judge` the measurements again with --bias"
_HINT = "make it again with `knowgate eval judge-bias`"


class JudgeBias(BaseModel):
    """How a judge did on cases whose right verdict is known.

    Attributes:
        created_by: program and version.
        judge: its name.
        fingerprint: of its weights and settings.
        beliefs: how its beliefs were found.
        questions: with four cases each.
        cases: with a verdict.
        no_verdict: cases on which there is none.
        kappa: Cohen's, verdicts against labels, over all cases.
        follows_belief: share of the verdicts that go by the belief where it contradicts the
            context; 0 for a judge that keeps to the context.
        rejects_disbelieved: share of the replies that are right by the context and wrong to the
            judge which it calls wrong.
        accepts_believed: share of those that are wrong by the context and right to the judge
            which it calls right.
        control_errors: share of wrong verdicts where belief and context agree.
        belief_effect: `follows_belief` minus `control_errors`, paired by question: what the
            belief does beyond the errors that the judge makes anyway.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: Literal[1] = 1
    kind: Literal["judge_bias"] = "judge_bias"
    created_by: str = ""
    judge: str
    fingerprint: str = ""
    beliefs: str = ""
    data: str = ""
    prompts: dict[str, str] = {}
    questions: Annotated[int, Field(ge=0)]
    cases: Annotated[int, Field(ge=0)]
    no_verdict: Annotated[int, Field(ge=0)] = 0
    kappa: Interval
    follows_belief: Interval
    rejects_disbelieved: Interval
    accepts_believed: Interval
    control_errors: Interval
    belief_effect: Interval

    @property
    def warning(self) -> str | None:
        """One sentence for readers of the judge's numbers; None where nothing speaks against it.

        A judge is warned of where its belief costs clearly more verdicts than chance explains
        (five in a hundred or more, the interval above zero), where it agrees poorly with the
        labels (kappa below .6), or where too little is known to say (fewer than 30 questions,
        no verdict).
        """
        return TEXTS.text("warning", self, _MUCH, _POOR_KAPPA, _FEW) or None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the artefact.

        Raises:
            InputError: the file cannot be written.
        """
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> JudgeBias:
        """Read the artefact in a file.

        Raises:
            InputError: no such file, no such artefact in it, or one written by a newer knowgate.
        """
        value = Manifest.read_versioned(path, hint=_HINT)
        where = os.fspath(path)
        if value.get("kind") != "judge_bias":
            raise InputError("is no measurement of a judge's bias", where=where, hint=_HINT)
        return check_model(JudgeBias, value, where=where, hint=_HINT)

    @staticmethod
    def of_run(folder: str | os.PathLike[str]) -> dict[str, JudgeBias]:
        """Read the measurements stored with a run, by judge; none where nothing was stored.

        Raises:
            InputError: the file is broken or written by a newer knowgate.
        """
        path = Path(folder) / _RUN_FILE
        if not path.exists():
            return {}
        value = Manifest.read_versioned(path, hint=_HINT_OF_RUN)
        judges = value.get("judges")
        if value.get("kind") != _KIND or not isinstance(judges, list):
            raise InputError("holds no measurements of judges", where=str(path), hint=_HINT_OF_RUN)
        found = [check_model(JudgeBias, one, where=str(path), hint=_HINT_OF_RUN) for one in judges]
        return {bias.judge: bias for bias in found}

    @staticmethod
    def keep(folder: str | os.PathLike[str], biases: Sequence[JudgeBias]) -> None:
        """Store measurements with a run, beside those of its other judges.

        Raises:
            InputError: what is there already is broken, or the file cannot be written.
        """
        known = JudgeBias.of_run(folder) | {bias.judge: bias for bias in biases}
        write_json(
            Path(folder) / _RUN_FILE,
            {
                "schema_version": _SCHEMA_VERSION,
                "kind": _KIND,
                "judges": [bias.model_dump(mode="json") for _, bias in sorted(known.items())],
            },
        )


class BiasRow(Stored):
    """A line of `rows.jsonl`: the verdict on one case.

    A case is a question, a context, and a reply that follows the context or does not.

    Attributes:
        number: of the case; the numbers of a run are computed in this order.
        key: of the question.
        label: whether the reply is right by the context.
        believed: whether it is what the judge believes.
        right: the verdict; None exactly where there is an error.
        question: that was asked; empty in a stored row, as are the next two.
        context: by which the reply is to be judged.
        reply: that is judged.
    """

    case_id: str
    number: int = 0
    key: str = ""
    label: bool = False
    believed: bool = False
    right: bool | None = None
    error: RowError | None = None
    question: str = Field("", exclude=True)
    context: str = Field("", exclude=True)
    reply: str = Field("", exclude=True)

    @property
    def conflicting(self) -> bool:
        """Whether a judge that goes by its belief judges wrongly."""
        return self.label != self.believed


def measure_bias(verdicts: Sequence[BiasRow], *, judge: str) -> JudgeBias:
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
        rejects_disbelieved=share_of(not right for right in disbelieved),
        accepts_believed=share_of(believed),
        control_errors=_error_rate(controls),
        belief_effect=paired(_means(conflicting), _means(controls)),
    )


_Told = Sequence[tuple[BiasRow, bool]]


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


def _means(told: _Told) -> dict[str, float]:
    wrong: dict[str, list[bool]] = {}
    for case, right in told:
        wrong.setdefault(case.key, []).append(case.label != right)
    return {key: sum(errors) / len(errors) for key, errors in wrong.items()}
