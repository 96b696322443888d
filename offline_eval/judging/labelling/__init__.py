"""Let people label replies, and review left-out cases; the pages are in `web`.

Inside the folder of a run of replies:

    labels/_sample.json       which replies are labelled, by which criteria, and how likely
                              each was to be drawn; one for all annotators
    labels/NAME.jsonl         the labels of one annotator, appended one by one
    labels/_consensus.jsonl   the outcomes that settle disagreements

In a run of relevance signals `reviews.jsonl` holds what people said of left-out cases:

    left-out cases, the probably answered ones first ─► ReviewSession ─┬─► reviews.jsonl
                                                   a spreadsheet and back ─┘

Of labels nobody sees what others or judges said before having labelled; only who settles
disagreements sees the labels of those who disagree.
"""

from __future__ import annotations

from ._labels import Agreement, Labels

__all__ = ["Agreement", "Labels"]
