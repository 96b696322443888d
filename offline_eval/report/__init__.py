"""The report of an out-of-knowledge-base run: what the guard would have done.

    run folder ─► read_ookb_run ─► measured cases ─► summary ─┬─► report.json   for gates
                                                              ├─► report.md     for pull requests
                                                              └─► report.html   for people

The same run folder gives the same bytes, wherever it lies.
"""

from __future__ import annotations

from ._summary import (
    REPORT_SCHEMA_VERSION,
    Estimate,
    InKbSummary,
    LeftOutSummary,
    OokbSummary,
    PolicySummary,
    summarise_ookb,
)
from ._writing import ReportPaths, write_report

__all__ = [
    "REPORT_SCHEMA_VERSION",
    "Estimate",
    "InKbSummary",
    "LeftOutSummary",
    "OokbSummary",
    "PolicySummary",
    "ReportPaths",
    "summarise_ookb",
    "write_report",
]
