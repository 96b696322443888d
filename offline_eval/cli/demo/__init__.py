"""The demo: the guard over real chains, offline and without a key."""

from __future__ import annotations

from ._city import run_city_demo
from ._microworld import run_microworld_demo

__all__ = ["run_city_demo", "run_microworld_demo"]
