"""The numbers of a run of this suite: what `report.json` holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...._version import __version__
from ...report import Document
from ._metrics import ScoredReply
from ._plan import UaqRow
from ._run_reading import UaqRun
from ._scoring import ALL, ChoiceLine, ScoreLine, score_choices, score_run, verdicts


@dataclass(frozen=True, slots=True)
class UaqSummary:
    """All numbers of a run.

    Attributes:
        run: what they were computed from.
        strict: under the rules that count.
        published: under the authors' rules.
        choices: task 2.
        scored: row → verdict under the strict rules.
        failures: rows with an error, by type, most frequent first.
    """

    run: UaqRun
    strict: tuple[ScoreLine, ...]
    published: tuple[ScoreLine, ...]
    choices: tuple[ChoiceLine, ...]
    scored: Mapping[str, ScoredReply]
    failures: Mapping[str, int]

    @property
    def whole(self) -> tuple[ScoreLine, ...]:
        """One line per system and form, over all types and languages."""
        return tuple(line for line in self.strict if line.language == line.type == ALL)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest = self.run.manifest
        aliases: dict[str, Any] = {}
        if self.whole:
            first = self.whole[0].metrics.to_dict()
            # What gates ask for by short names: the model as it is, in its first form.
            aliases = {name: first[name] for name in first if name != "questions"}
        elif self.choices:
            aliases = {"kpr": self.choices[0].kpr.to_dict()}
        return {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": manifest.suite,
            "created_by": f"knowgate {__version__}",
            "run_created_by": manifest.created_by,
            "questions": len(self.run.data.items),
            "languages": list(self.run.data.languages),
            "rows": len(self.run.rows),
            "rows_planned": manifest.rows,
            "failures": dict(self.failures),
            **aliases,
            "lines": [line.to_dict() for line in (*self.strict, *self.published)],
            "task2": [line.to_dict() for line in self.choices],
            "quirks": list(manifest.quirks),
            "settings": manifest.settings,
            "inputs": [file.model_dump() for file in manifest.inputs],
        }


def summarise_uaqfact(run: UaqRun) -> UaqSummary:
    """The summary of a run; the same run gives the same numbers."""
    items = {item.key: item for item in run.data.items}
    replies: list[UaqRow] = [row for row in run.rows if row.form != "choice"]
    failed = Counter(row.error.type for row in run.rows if row.error is not None)
    return UaqSummary(
        run=run,
        strict=tuple(score_run(run)),
        published=tuple(score_run(run, rule="published")),
        choices=tuple(score_choices(run)),
        scored=verdicts(replies, items),
        failures=dict(sorted(failed.items(), key=lambda pair: (-pair[1], pair[0]))),
    )
