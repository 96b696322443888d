"""What a run of the suite found, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...._version import __version__
from ....calibration import Interval
from ....guard.decision import Route
from ...report.document import Document
from ._scoring import (
    AccuracyCell,
    ConflictRun,
    PlausibilityBand,
    Preference,
    Suppression,
    accuracy_cells,
    confident_keys,
    evidence_differences,
    guard_routes,
    plausibility_bands,
    plausible_preference,
    preferences,
    suppressions,
)
from .evidence import disagree
from .items import EvidenceKind, Task


@dataclass(frozen=True, slots=True)
class EvidenceCount:
    """Passages of one kind.

    Attributes:
        made: that there are.
        used: that passed all checks.
        doubted: on which checks or judges disagree.
        plausibility: mean of the used ones in [0, 1], None where it was not measured.
        refused: reason → number, most frequent first; those that could not be made included.
    """

    kind: EvidenceKind
    made: int
    used: int
    doubted: int
    plausibility: float | None
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConflictSummary:
    """All numbers of a run.

    Attributes:
        run: what they were computed from.
        beliefs: why → number of questions.
        evidence: by kind.
        cells: accuracy by task and evidence.
        differences: NC minus each contradicting kind, by task.
        preferences: of RAG.
        plausible_preference: HPC minus LPC.
        suppressions: by system and kind.
        routes: by guard, kind and route: what guards did with PK's passages.
        bands: by measured plausibility.
        confident: questions in the high-confidence subset.
        letters: how often each letter is right among rows of one right answer.
        failures: rows with an error, by type, most frequent first.
    """

    run: ConflictRun
    beliefs: Mapping[str, int]
    evidence: tuple[EvidenceCount, ...]
    cells: tuple[AccuracyCell, ...]
    differences: tuple[tuple[Task, EvidenceKind, Interval], ...]
    preferences: tuple[Preference, ...]
    plausible_preference: Interval
    suppressions: tuple[Suppression, ...]
    routes: Mapping[str, Mapping[EvidenceKind, Mapping[Route, int]]]
    bands: tuple[PlausibilityBand, ...]
    confident: int
    letters: Mapping[str, int]
    failures: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest = self.run.manifest
        accuracy: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            fields = asdict(cell)
            del fields["task"], fields["evidence"]
            found_cell = {**fields.pop("accuracy"), **fields}
            accuracy.setdefault(cell.task.value, {})[cell.evidence.value] = found_cell
        suppression: dict[str, dict[str, Any]] = {}
        for found in self.suppressions:
            suppression.setdefault(found.system, {})[found.evidence.value] = _intervals(found)
        return {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": manifest.suite,
            "created_by": f"knowgate {__version__}",
            "run_created_by": manifest.created_by,
            "questions": manifest.questions,
            "instances": len(self.run.instances),
            "high_confidence": self.confident,
            "rows": len(self.run.rows),
            "rows_planned": len(self.run.planned_ids),
            "failures": dict(self.failures),
            "beliefs": dict(self.beliefs),
            "evidence": {
                one.kind.value: {k: v for k, v in asdict(one).items() if k != "kind"}
                for one in self.evidence
            },
            "accuracy": accuracy,
            "lost_to": {
                f"{task.value}_{kind.value}": interval.to_dict()
                for task, kind, interval in self.differences
            },
            "preference": {one.evidence.value: _intervals(one) for one in self.preferences},
            "plausible_preference": self.plausible_preference.to_dict(),
            "suppression": suppression,
            "guard_routes": {
                name: {
                    kind.value: {route.value: number for route, number in counts.items()}
                    for kind, counts in kinds.items()
                }
                for name, kinds in self.routes.items()
            },
            "plausibility": [asdict(band) for band in self.bands],
            "right_letters": dict(self.letters),
            "quirks": list(manifest.quirks),
            "settings": manifest.settings,
            "inputs": [file.model_dump() for file in manifest.inputs],
        }


def _intervals(one: Preference | Suppression) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if isinstance(value, dict)}


def summarise_conflict(run: ConflictRun) -> ConflictSummary:
    """The summary of a run; the same run gives the same numbers."""
    # A guard that keeps the model's reply keeps its failure, which is no second call.
    own = [row for row in run.rows if row.route is None]
    failed = Counter(row.error.type for row in own if row.error is not None)
    failed.update(row.error.type for row in run.beliefs if row.error is not None)
    failed.update(row.error.type for row in run.evidence if row.error is not None)
    letters = Counter(row.right[0] for row in run.rows if len(row.right) == 1)
    return ConflictSummary(
        run=run,
        beliefs=_ranked(Counter(row.why for row in run.beliefs)),
        evidence=tuple(_count_evidence(run, kind) for kind in run.kinds),
        cells=tuple(accuracy_cells(run)),
        differences=tuple(evidence_differences(run)),
        preferences=tuple(preferences(run)),
        plausible_preference=plausible_preference(run),
        suppressions=tuple(suppressions(run)),
        routes=guard_routes(run),
        bands=tuple(plausibility_bands(run)),
        confident=len(confident_keys(run)),
        letters=dict(sorted(letters.items())),
        failures=_ranked(failed),
    )


def _count_evidence(run: ConflictRun, kind: EvidenceKind) -> EvidenceCount:
    rows = [row for row in run.evidence if row.kind is kind]
    values = [row.plausibility for row in rows if row.accepted and row.plausibility is not None]
    return EvidenceCount(
        kind=kind,
        made=sum(bool(row.passage) for row in rows),
        used=sum(row.accepted for row in rows),
        doubted=sum(disagree(row.checks) for row in rows),
        plausibility=sum(values) / len(values) if values else None,
        refused=_ranked(Counter(row.reason for row in rows if not row.accepted)),
    )


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
