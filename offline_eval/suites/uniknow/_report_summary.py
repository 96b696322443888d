"""The numbers of a run of this suite: what `report.json` holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...._version import __version__
from ....calibration import Interval
from ....guard.policy import Guarantee
from ...report import Document
from ._beyond import BeyondRates, beyond_rates
from ._cases import ContextKind, Knowledge
from ._comparison import (
    PUBLISHED_ABLATION,
    PUBLISHED_MODEL,
    PUBLISHED_ROWS,
    PairedDifference,
    paired_difference,
)
from ._metrics import MethodMetrics, uniknow_metrics
from ._reading import UniKnowRun
from ._report_names import PAIRS, in_order, variant_of

_BASE = "lm_uniknow"
_SHARE, _WITHOUT = "abstention", "without"
# Four situations in equal parts; abstaining is wanted in one of them.
_USUAL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class AblationPoint:
    """A training with some share of examples that abstain.

    Attributes:
        share: of the training examples, in [0, 1].
        rely: over all scored cases.
        unknown: exact match in `unknown`.
        memory: exact match in `parametric_only`.
    """

    share: float
    rely: Interval
    unknown: Interval
    memory: Interval


@dataclass(frozen=True, slots=True)
class Ablations:
    """The results of the variants in a run.

    Attributes:
        shares: by share, ascending; the usual training among them.
        left_out: the usual training first, then those with kinds left out, with Rely.
    """

    shares: tuple[AblationPoint, ...]
    left_out: tuple[tuple[str, Interval], ...]


def find_ablations(methods: Mapping[str, MethodMetrics]) -> Ablations:
    """Find the ablations among the methods, by their names.

    These are `lm_uniknow@abstention=0.5` and `lm_uniknow@without=conflicting` (several kinds
    joined by `+`).
    """
    shares: dict[float, MethodMetrics] = {}
    left_out: list[tuple[str, Interval]] = []
    for name, found in methods.items():
        base, variant = variant_of(name) or ("", "")
        what, _, value = variant.partition("=")
        if base != _BASE:
            continue
        if what == _SHARE and (share := _share(value)) is not None:
            shares[share] = found
        if what == _WITHOUT and value:
            left_out.append((f"without {value}", found.overall.rely))
    usual = methods.get(_BASE)
    if usual is not None and shares:
        shares.setdefault(_USUAL_SHARE, usual)
    if usual is not None and left_out:
        left_out.insert(0, ("full training", usual.overall.rely))
    return Ablations(
        tuple(_point(share, shares[share]) for share in sorted(shares)), tuple(left_out)
    )


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def _point(share: float, found: MethodMetrics) -> AblationPoint:
    return AblationPoint(
        share=share,
        rely=found.overall.rely,
        unknown=found.scenarios["unknown"].em,
        memory=found.scenarios["parametric_only"].em,
    )


@dataclass(frozen=True, slots=True)
class UniKnowSummary:
    """All numbers of a run.

    Attributes:
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, ablations last.
        differences: guard against base, against prompting and against the trained methods.
        beyond: per kind of context beyond the paper, by method.
        ablations: results of the variants of the trained methods.
        problems: contexts that could not be built, by kind.
        run: what all this was computed from.
    """

    questions: int
    groups: int
    knowledge: Mapping[str, int]
    failures: Mapping[str, Mapping[str, int]]
    methods: Mapping[str, MethodMetrics]
    differences: tuple[PairedDifference, ...]
    beyond: Mapping[ContextKind, Mapping[str, BeyondRates]]
    ablations: Ablations
    problems: Mapping[str, int]
    run: UniKnowRun

    @property
    def promise(self) -> Guarantee | None:
        """The guarantee of the guards' policy; None where no guard took part."""
        return None if self.run.policy is None else self.run.policy.guarantee

    @property
    def main(self) -> dict[str, MethodMetrics]:
        """The methods without the ablations."""
        return {name: found for name, found in self.methods.items() if variant_of(name) is None}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        differences: dict[str, dict[str, Any]] = {}
        for found in self.differences:
            differences.setdefault(found.method, {})[found.base] = found.to_dict()
        return {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": "uniknow",
            "created_by": f"knowgate {__version__}",
            "run_created_by": self.run.manifest.created_by,
            "questions": self.questions,
            "groups": self.groups,
            "knowledge": dict(self.knowledge),
            "rows": len(self.run.rows),
            "rows_planned": self.run.plan.rows,
            "failures": {name: dict(types) for name, types in self.failures.items()},
            "contexts_not_built": dict(self.problems),
            "methods_left_out": dict(self.run.manifest.left_out),
            "methods": {name: found.to_dict() for name, found in self.methods.items()},
            "differences": differences,
            "beyond": {
                kind.value: {name: rates.to_dict() for name, rates in by_method.items()}
                for kind, by_method in self.beyond.items()
            },
            "published": _published(),
            "settings": dict(self.run.manifest.settings),
            "inputs": [file.model_dump() for file in self.run.manifest.inputs],
        }


def summarise_uniknow(run: UniKnowRun) -> UniKnowSummary:
    """Summarise a run; the same run gives the same numbers."""
    rows = run.rows
    found = uniknow_metrics(rows, contexts=contexts_of(run))
    methods = {name: found[name] for name in in_order(found)}
    beyond = beyond_rates(rows)
    known = {row.question_key: row.knowledge for row in rows}
    knowledge = Counter(known.values())
    return UniKnowSummary(
        questions=len(known),
        groups=len({(row.dataset, row.group) for row in rows}),
        knowledge={kind.value: knowledge[kind] for kind in Knowledge},
        failures=_failures(run),
        methods=methods,
        differences=tuple(
            difference
            for method, base in PAIRS
            if method in methods and base in methods
            for difference in (paired_difference(rows, method, base),)
            if difference.cases
        ),
        beyond={
            kind: {name: by_method[name] for name in in_order(by_method)}
            for kind, by_method in beyond.items()
        },
        ablations=find_ablations(methods),
        problems=Counter(problem.kind.value for problem in run.plan.problems),
        run=run,
    )


def contexts_of(run: UniKnowRun) -> dict[str, str]:
    """Return the text of each case's context."""
    return {key: "\n\n".join(case.passages) for key, case in run.cases.items()}


def _failures(run: UniKnowRun) -> dict[str, dict[str, int]]:
    types: dict[str, Counter[str]] = {}
    for row in run.rows:
        if row.error is not None:
            # The type alone: a message may quote what was asked.
            kind = str(row.error).partition(":")[0].strip()
            types.setdefault(row.method, Counter())[kind] += 1
    return {
        name: dict(sorted(types[name].items(), key=lambda item: (-item[1], item[0])))
        for name in in_order(types)
    }


def _published() -> dict[str, Any]:
    return {
        "note": "published, other model and data, for orientation",
        "model": PUBLISHED_MODEL,
        "methods": {
            row.method: {"em": dict(row.em), "rely_nq": row.rely_nq} for row in PUBLISHED_ROWS
        },
        "ablation_rely_triviaqa": [
            {"without": list(row.without), "rely": row.rely} for row in PUBLISHED_ABLATION
        ],
    }
