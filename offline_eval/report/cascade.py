"""Which scorer of a cascade decided how many cases, and what followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...guard.decision import Route
from .prose import Templates

_WORDS = Templates(Path(__file__).parent / "templates" / "what_if.txt")
_STAGES = ("cheap", "costly", "fallback")


def cascade_counts(decisions: Iterable[tuple[str | None, Route | None]]) -> dict[str, Any] | None:
    """Count how often each stage of a cascade of scorers decided, from pairs of stage and route.

    Returns:
        JSON-ready: all decisions with a measured relevance, those in which the costly scorer was
        asked, those that it was saved, those in which it gave no verdict, and under `stages` the
        decisions by stage, then by route. None where no decision has a stage.
    """
    found = Counter(decisions)
    stages = {name: {route.value: found[name, route] for route in Route} for name in _STAGES}
    totals = {name: sum(by_route.values()) for name, by_route in stages.items()}
    if not any(totals.values()):
        return None
    asked = totals["costly"] + totals["fallback"]
    return {
        "decisions": totals["cheap"] + asked,
        "asked": asked,
        "saved": totals["cheap"],
        "failed": totals["fallback"],
        "stages": stages,
    }


def cascade_without_what_if() -> str:
    """Say why no other threshold of a cascade can be tried."""
    return _WORDS.text("cascade")
