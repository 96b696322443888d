"""The demo: the guard over real chains, offline and without a key."""

from __future__ import annotations

from ._city import CityDemo, LiveAnswer, help_desk, live_answers, run_city_demo
from ._extractive import ScorerEmbeddings, extractive_reader, split_sentences

__all__ = [
    "CityDemo",
    "LiveAnswer",
    "ScorerEmbeddings",
    "extractive_reader",
    "help_desk",
    "live_answers",
    "run_city_demo",
    "split_sentences",
]
