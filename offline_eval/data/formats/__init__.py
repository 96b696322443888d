"""Replies that other tools logged, as runs of replies; and runs as documents of other tools."""

from __future__ import annotations

from ._knowornot_export import export_knowornot
from ._knowornot_import import import_knowornot
from ._lm_eval import import_lm_eval
from ._replay import bases_of_logs, replay_rows, replay_systems
from ._replay_log import read_replay_log
from ._run_parts import InteropWarning, KnownBase

__all__ = [
    "InteropWarning",
    "KnownBase",
    "bases_of_logs",
    "export_knowornot",
    "import_knowornot",
    "import_lm_eval",
    "read_replay_log",
    "replay_rows",
    "replay_systems",
]
