"""Parts that the reports of several suites share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._version import __version__
from ..report.document import Document, Prose, Section
from ..report.tables import Table


def run_values(manifest: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a run for `report.json`, between what every run says of itself.

    Args:
        manifest: of the run.
        own: numbers of the suite.
    """
    return {
        "schema_version": Document.SCHEMA_VERSION,
        "suite": manifest.suite,
        "created_by": f"knowgate {__version__}",
        "run_created_by": manifest.created_by,
        **own,
        "settings": dict(manifest.settings),
        "inputs": [file.model_dump() for file in manifest.inputs],
    }


def closing_sections(
    manifest: Any, failures: Mapping[str, int], counted: str
) -> list[Section | None]:
    """Return the last sections: failures, irregularities of the data, settings and hashes.

    Args:
        manifest: of the run.
        failures: number of each type of error.
        counted: heading of these numbers.
    """
    table = Table.of_text(("Type of error", counted), list(failures.items()))
    quirks = Prose(tuple(manifest.quirks), bullets=True)
    return [
        Section("Failures", (table,)) if failures else None,
        Section("Irregularities in the data", (quirks,)) if manifest.quirks else None,
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]
