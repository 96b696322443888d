"""Let people label replies: a sample, a page in the browser, labels and agreement.

Inside the folder of a run of replies:

    labels/_sample.json       which replies are labelled, by which criteria, and how likely
                              each was to be drawn; one for all annotators
    labels/NAME.jsonl         what one annotator said, appended label by label
    labels/_consensus.jsonl   what disagreements were settled to

Nobody sees what others or judges said before having labelled; only who settles
disagreements sees the labels of those who disagree.
"""

from __future__ import annotations

from ._agreement import Agreement, agreement, export_labels
from ._criteria import load_criterion
from ._labels import Labels, checked_annotator, read_labels
from ._sampling import open_sample
from ._server import LabelServer
from ._session import LabelSession, consensus_session, open_session

__all__ = [
    "Agreement",
    "LabelServer",
    "LabelSession",
    "Labels",
    "agreement",
    "checked_annotator",
    "consensus_session",
    "export_labels",
    "load_criterion",
    "open_sample",
    "open_session",
    "read_labels",
]
