"""The demo: the guard over real chains, offline and without a key."""

from __future__ import annotations

from ._city import CityDemo, LiveAnswer, help_desk, live_answers, run_city_demo
from ._extractive import ScorerEmbeddings, extractive_reader, split_sentences
from ._microworld import (
    SITUATIONS,
    MicroworldAnswer,
    microworld_policy,
    run_microworld_demo,
)

__all__ = [
    "SITUATIONS",
    "CityDemo",
    "LiveAnswer",
    "MicroworldAnswer",
    "ScorerEmbeddings",
    "extractive_reader",
    "help_desk",
    "live_answers",
    "microworld_policy",
    "run_city_demo",
    "run_microworld_demo",
    "split_sentences",
]
