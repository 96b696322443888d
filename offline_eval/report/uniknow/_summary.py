"""The numbers of a run of this suite: what `report.json` holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...._version import __version__
from ...uniknow._beyond import BeyondRates, beyond_rates
from ...uniknow._cases import ContextKind, Knowledge
from ...uniknow._counts import question_key
from ...uniknow._metrics import MethodMetrics, uniknow_metrics
from ...uniknow._paired import PairedDifference, paired_difference
from ...uniknow._published import PUBLISHED_ABLATION, PUBLISHED_MODEL, PUBLISHED_ROWS
from .._numbers import REPORT_SCHEMA_VERSION
from ._ablations import Ablations, find_ablations
from ._evidence import Evidence
from ._names import PAIRS, in_order, variant_of


@dataclass(frozen=True, slots=True)
class UniKnowSummary:
    """All numbers of a run.

    Attributes:
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        rows: stored, one per method and case.
        rows_planned: as the manifest has it.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, ablations last.
        differences: guard against base, and against the trained methods.
        beyond: per kind of context beyond the paper, by method.
        ablations: what the variants of the trained methods say.
        problems: contexts that could not be built, by kind.
        evidence: what all this was computed from.
    """

    questions: int
    groups: int
    knowledge: Mapping[str, int]
    rows: int
    rows_planned: int
    failures: Mapping[str, Mapping[str, int]]
    methods: Mapping[str, MethodMetrics]
    differences: tuple[PairedDifference, ...]
    beyond: Mapping[ContextKind, Mapping[str, BeyondRates]]
    ablations: Ablations
    problems: Mapping[str, int]
    evidence: Evidence

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
            "schema_version": REPORT_SCHEMA_VERSION,
            "suite": "uniknow",
            "created_by": f"knowgate {__version__}",
            "run_created_by": self.evidence.created_by,
            "questions": self.questions,
            "groups": self.groups,
            "knowledge": dict(self.knowledge),
            "rows": self.rows,
            "rows_planned": self.rows_planned,
            "failures": {name: dict(types) for name, types in self.failures.items()},
            "contexts_not_built": dict(self.problems),
            "methods_left_out": dict(self.evidence.left_out),
            "methods": {name: found.to_dict() for name, found in self.methods.items()},
            "differences": differences,
            "beyond": {
                kind.value: {name: rates.to_dict() for name, rates in by_method.items()}
                for kind, by_method in self.beyond.items()
            },
            "published": _published(),
            "settings": dict(self.evidence.settings),
            "inputs": [file.model_dump() for file in self.evidence.inputs],
        }


def summarise(evidence: Evidence) -> UniKnowSummary:
    """The summary of a run; the same run gives the same numbers."""
    rows = evidence.rows
    found = uniknow_metrics(rows, contexts=evidence.contexts())
    methods = {name: found[name] for name in in_order(found)}
    beyond = beyond_rates(rows)
    known = {question_key(row): row["knowledge"] for row in rows}
    knowledge = Counter(known.values())
    return UniKnowSummary(
        questions=len(known),
        groups=len({(row["dataset"], row["group"]) for row in rows}),
        knowledge={kind.value: knowledge[kind.value] for kind in Knowledge},
        rows=len(rows),
        rows_planned=evidence.rows_planned,
        failures=_failures(evidence),
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
        problems=evidence.problems,
        evidence=evidence,
    )


def _failures(evidence: Evidence) -> dict[str, dict[str, int]]:
    types: dict[str, Counter[str]] = {}
    for row in evidence.rows:
        if row["error"] is not None:
            # The type alone: a message may quote what was asked.
            kind = str(row["error"]).partition(":")[0].strip()
            types.setdefault(row["method"], Counter())[kind] += 1
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
