"""Let a person say which left-out cases are answered after all; the page is in `web`.

run ─► review cases, the likely ones first ─► ReviewSession ─► reviews.jsonl in the run folder
                                          └─► export, a spreadsheet ─► import ┘
"""

from __future__ import annotations

from ._cases import ReviewCase, ReviewPassage, review_cases
from ._exchange import export_reviews, import_reviews
from ._session import ReviewSession, facts_of, heading_of, review_counts

__all__ = [
    "ReviewCase",
    "ReviewPassage",
    "ReviewSession",
    "export_reviews",
    "facts_of",
    "heading_of",
    "import_reviews",
    "review_cases",
    "review_counts",
]
