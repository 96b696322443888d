"""The numbers of a run of this suite, under the names of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...report.document import as_json
from ...run.grouping import grouped, most_frequent
from ..parts import run_values
from ._cases import Knowledge
from ._metrics import beyond_rates, method_values, paired_difference, uniknow_metrics
from ._texts import CONTENT
from .plan import UniKnowRun

# Name as in the rows, title, the paper's letter, what model and context know, what is wanted.
SITUATIONS: Sequence[Mapping[str, str]] = CONTENT["situations"]
_METHODS: Mapping[str, tuple[str, str]] = {n: tuple(one) for n, one in CONTENT["methods"].items()}
_ORDER = list(_METHODS)
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    name: {"rely_nq": None, **found} for name, found in CONTENT["published"]["methods"].items()
}


def shown_method(name: str) -> tuple[str, str]:
    """Return the family of a method, `other` if it is not known, and what it does."""
    base, _, variant = name.partition("@")
    family, meaning = _METHODS.get(base, ("other", ""))
    return family, f"{base}, {variant}." if variant and meaning else meaning


def _rank(name: str) -> tuple[bool, int, str]:
    """Put methods in order: those of the suite in its own, others by name, ablations last."""
    return "@" in name, _ORDER.index(name) if name in _ORDER else len(_ORDER), name


class UniKnowSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what all this is computed from.

    Attributes:
        asked: number of rows by method.
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, without the ablations.
        ablations: trainings on other data, by name.
        differences: guard against base, against prompting and against the trained methods: by
            both names the number of cases, and the intervals.
        beyond: per kind of context beyond the paper, by method.
        problems: contexts that could not be built, by kind.
    """

    def __init__(self, run: UniKnowRun) -> None:
        self.run, rows = run, sorted(run.rows, key=lambda row: _rank(row.method))
        known = {row.question_key: row.knowledge for row in rows}
        sides = Counter(known.values())
        self.asked, self.questions = Counter(row.method for row in rows), len(known)
        self.groups = len({(row.dataset, row.group) for row in rows})
        self.knowledge = {kind.value: sides[kind] for kind in Knowledge}
        # The type alone: a message may quote what was asked.
        failed = grouped((row for row in rows if row.error is not None), lambda row: row.method)
        self.failures = {
            name: most_frequent(str(row.error).partition(":")[0].strip() for row in own)
            for name, own in failed.items()
        }
        contexts = {key: case.context for key, case in run.cases.items()}
        metrics = uniknow_metrics(rows, contexts=contexts)
        self.methods = {name: found for name, found in metrics.items() if "@" not in name}
        self.ablations = {name: found for name, found in metrics.items() if "@" in name}
        differences = {
            (method, base): paired_difference(rows, method, base)
            for method, base in CONTENT["pairs"]
            if method in metrics and base in metrics
        }
        self.differences = {pair: found for pair, found in differences.items() if found[0]}
        self.beyond = beyond_rates(rows)
        self.problems = Counter(problem.kind.value for problem in run.plan.problems)

    @property
    def abstains_always(self) -> bool:
        """Whether guards took part, and nothing was certified for them."""
        promise = None if self.run.policy is None else self.run.policy.guarantee
        return promise is not None and not promise.certified

    def failed(self, method: str | None = None) -> int:
        """Return the number of rows with an error, of a method or of all."""
        names = self.failures if method is None else [method]
        return sum(sum(self.failures.get(name, {}).values()) for name in names)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        differences: dict[str, dict[str, Any]] = {}
        for (method, base), (cases, intervals) in self.differences.items():
            differences.setdefault(method, {})[base] = {"cases": cases, **intervals}
        names = ("questions", "groups", "knowledge", "failures", "beyond")
        values = {
            **{name: getattr(self, name) for name in names},
            "methods": {
                name: method_values(found, self.failed(name))
                for name, found in {**self.methods, **self.ablations}.items()
            },
            "rows": len(self.run.rows),
            "rows_planned": self.run.plan.rows,
            "contexts_not_built": self.problems,
            "methods_left_out": self.run.manifest.left_out,
            "differences": differences,
            "published": {**CONTENT["published"], "methods": PUBLISHED},
        }
        return run_values(self.run.manifest, as_json(values))
