"""The report of a run of replies: what systems said, and what judges made of it.

run folder ─► judged replies ─► summary ─┬─► report.json   for gates
                                         ├─► report.md     for pull requests
                                         ├─► report.html   for people
                                         ├─► replies.csv   for spreadsheets
                                         └─► junit.xml     for CI systems
"""

from __future__ import annotations
