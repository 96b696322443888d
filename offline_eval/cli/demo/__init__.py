"""The demo: the guard over real chains, offline and without a key."""

from __future__ import annotations

from ._city import LiveAnswer, run_city_demo
from ._microworld import SITUATIONS, MicroworldAnswer, run_microworld_demo

__all__ = ["SITUATIONS", "LiveAnswer", "MicroworldAnswer", "run_city_demo", "run_microworld_demo"]
