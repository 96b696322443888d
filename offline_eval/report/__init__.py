"""The report of a run; of an out-of-knowledge-base run: what the guard would have done.

    run folder ─► read_ookb_run ─► measured cases ─► summary ─┬─► report.json   for gates
                                                              ├─► report.md     for pull requests
                                                              └─► report.html   for people

A run of replies (what systems said, and what judges made of it) has a larger one, see `replies`.
A run of the UniKnow suite has a report of its own, in the same three files: see `uniknow`.
The same run folder gives the same bytes, wherever it lies.
"""

from __future__ import annotations

from ._paths import ReportPaths
from ._summary import (
    REPORT_SCHEMA_VERSION,
    Estimate,
    InKbSummary,
    LeftOutSummary,
    OokbSummary,
    PolicySummary,
    summarise_ookb,
)
from ._writing import write_report
from .uniknow import UniKnowSummary, write_uniknow_report

__all__ = [
    "REPORT_SCHEMA_VERSION",
    "Estimate",
    "InKbSummary",
    "LeftOutSummary",
    "OokbSummary",
    "PolicySummary",
    "ReportPaths",
    "UniKnowSummary",
    "summarise_ookb",
    "write_report",
    "write_uniknow_report",
]
