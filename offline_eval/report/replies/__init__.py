"""The report of a run of replies: what systems said, and what judges made of it.

run folder ─► judged replies ─► summary ─┬─► report.json   for gates
                                         ├─► report.md     for pull requests
                                         ├─► report.html   for people
                                         ├─► replies.csv   for spreadsheets
                                         └─► junit.xml     for CI systems
"""

from __future__ import annotations

from ._evidence import Evidence, read_evidence
from ._summary import RepliesSummary, summarise_replies
from ._writing import replies_report

__all__ = [
    "Evidence",
    "RepliesSummary",
    "read_evidence",
    "replies_report",
    "summarise_replies",
]
