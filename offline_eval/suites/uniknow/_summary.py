"""The numbers of a run of this suite: what `report.json` holds, under the names of the report."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....guard.artefacts import Guarantee
from ...report.prose import Templates
from ...run.grouping import grouped, most_frequent
from ..reporting import run_values
from ._cases import Knowledge
from ._metrics import (
    MethodMetrics,
    beyond_rates,
    paired_difference,
    uniknow_metrics,
)
from .plan import UniKnowRun

CONTENT = tomllib.loads((Path(__file__).parent / "report.toml").read_text(encoding="utf-8"))
TEXTS = Templates(Path(__file__).parent / "report.txt")
# Name as in the rows, title, the paper's letter, what model and context know, what is wanted.
SITUATIONS: Sequence[Mapping[str, str]] = CONTENT["situations"]
_METHODS: Mapping[str, tuple[str, str]] = CONTENT["methods"]
_ORDER = {name: position for position, name in enumerate(_METHODS)}

_PUBLISHED = {
    **CONTENT["published"],
    "methods": {
        name: {"rely_nq": None, **found} for name, found in CONTENT["published"]["methods"].items()
    },
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def variant_of(method: str) -> tuple[str, str] | None:
    """Split the name of an ablation, as `lm_uniknow@abstention=0.25`; None for others.

    Example:
        >>> variant_of("lm_uniknow@abstention=0.25"), variant_of("naive")
        (('lm_uniknow', 'abstention=0.25'), None)
    """
    base, sign, variant = method.partition("@")
    return (base, variant) if sign and base and variant else None


def shown_method(name: str) -> tuple[str, str]:
    """Return the family of a method, `other` if it is not known, and what it does."""
    base, variant = variant_of(name) or (name, "")
    family, meaning = _METHODS.get(base, ("other", ""))
    return family, f"{base}, {variant}." if variant and meaning else meaning


def in_order(names: Iterable[str]) -> list[str]:
    """Sort the methods: those of the suite in its order, others by name, ablations last."""
    return sorted(
        set(names), key=lambda name: (variant_of(name) is not None, _ORDER.get(name, 99), name)
    )


def plain(name: str, position: int) -> str:
    """Return the name if it can be drawn in a plot, otherwise a number.

    Example:
        >>> plain("naive", 0), plain("<script>", 4)
        ('naive', 'method 5')
    """
    return name if _PLAIN.fullmatch(name) else f"method {position + 1}"


class UniKnowSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what all this is computed from.

    Attributes:
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, ablations last.
        differences: guard against base, against prompting and against the trained methods.
        beyond: per kind of context beyond the paper, by method.
        problems: contexts that could not be built, by kind.
    """

    def __init__(self, run: UniKnowRun) -> None:
        self.run = run
        known = {row.question_key: row.knowledge for row in run.rows}
        sides = Counter(known.values())
        self.questions = len(known)
        self.groups = len({(row.dataset, row.group) for row in run.rows})
        self.knowledge = {kind.value: sides[kind] for kind in Knowledge}
        self.failures = _failures(run)
        metrics = uniknow_metrics(run.rows, contexts=run.contexts)
        self.methods = {name: metrics[name] for name in in_order(metrics)}
        differences = (
            paired_difference(run.rows, method, base)
            for method, base in CONTENT["pairs"]
            if method in metrics and base in metrics
        )
        self.differences = [one for one in differences if one.cases]
        self.beyond = {
            kind: {name: by_method[name] for name in in_order(by_method)}
            for kind, by_method in beyond_rates(run.rows).items()
        }
        self.problems = Counter(problem.kind.value for problem in run.plan.problems)

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
        values = {
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
            "published": _PUBLISHED,
        }
        return run_values(self.run.manifest, values)


def _failures(run: UniKnowRun) -> dict[str, dict[str, int]]:
    # The type alone: a message may quote what was asked.
    failed = grouped((row for row in run.rows if row.error is not None), lambda row: row.method)
    return {
        name: most_frequent(str(row.error).partition(":")[0].strip() for row in failed[name])
        for name in in_order(failed)
    }
