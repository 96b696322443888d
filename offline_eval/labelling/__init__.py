"""People's labels of replies: a sample to label, a page to label it on, and what came of it.

Inside the folder of a run of replies:

    labels/_sample.json       which replies are labelled, by which criteria, and how likely
                              each was to be drawn; one for all annotators
    labels/NAME.jsonl         what one annotator said, appended label by label
    labels/_consensus.jsonl   what disagreements were settled to

Nobody sees what others or judges said before having labelled; only who settles
disagreements sees the labels of those who disagree.
"""

from __future__ import annotations

from ._agreement import Agreement, agreement
from ._artefacts import HumanLabel, LabelSample, SampledReply
from ._criteria import ABSTENTION_CRITERION, FACTUALITY_CRITERION, LabelCriterion, load_criterion
from ._export import export_labels
from ._labels import CONSENSUS, Labels, checked_annotator, read_labels
from ._opening import consensus_session, open_session
from ._sample_file import open_sample, read_sample
from ._sampling import Stratum, draw_sample
from ._server import LabelServer
from ._session import LabelSession, NotAskedError

__all__ = [
    "ABSTENTION_CRITERION",
    "CONSENSUS",
    "FACTUALITY_CRITERION",
    "Agreement",
    "HumanLabel",
    "LabelCriterion",
    "LabelSample",
    "LabelServer",
    "LabelSession",
    "Labels",
    "NotAskedError",
    "SampledReply",
    "Stratum",
    "agreement",
    "checked_annotator",
    "consensus_session",
    "draw_sample",
    "export_labels",
    "load_criterion",
    "open_sample",
    "open_session",
    "read_labels",
    "read_sample",
]
