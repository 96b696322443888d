"""Let people label replies: a sample, sessions, labels and agreement; the page is in `web`.

Inside the folder of a run of replies:

    labels/_sample.json       which replies are labelled, by which criteria, and how likely
                              each was to be drawn; one for all annotators
    labels/NAME.jsonl         the labels of one annotator, appended one by one
    labels/_consensus.jsonl   the outcomes that settle disagreements

Nobody sees what others or judges said before having labelled; only who settles
disagreements sees the labels of those who disagree.
"""

from __future__ import annotations

from ._agreement import Agreement
from ._export import from_cell, is_csv_name, write_export
from ._labels import Labels
from ._session import LabelSession, NotAskedError
from ._views import plain

__all__ = [
    "Agreement",
    "LabelSession",
    "Labels",
    "NotAskedError",
    "from_cell",
    "is_csv_name",
    "plain",
    "write_export",
]
