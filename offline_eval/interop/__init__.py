"""Replies that other tools logged, as runs of replies; and runs as documents of other tools."""

from __future__ import annotations

from ._known_questions import KnownBase, read_bases
from ._knowornot_export import export_knowornot
from ._knowornot_import import import_knowornot
from ._lm_eval import import_lm_eval
from ._replay import (
    ReplayRows,
    bases_of_logs,
    import_replay,
    logged_system,
    replay_parts,
    replay_rows,
    replay_systems,
)
from ._replay_log import LoggedPassage, LoggedReply, ReplayLog, read_replay_log
from ._run_parts import InteropWarning, RunParts, input_files, write_run

__all__ = [
    "InteropWarning",
    "KnownBase",
    "LoggedPassage",
    "LoggedReply",
    "ReplayLog",
    "ReplayRows",
    "RunParts",
    "bases_of_logs",
    "export_knowornot",
    "import_knowornot",
    "import_lm_eval",
    "import_replay",
    "input_files",
    "logged_system",
    "read_bases",
    "read_replay_log",
    "replay_parts",
    "replay_rows",
    "replay_systems",
    "write_run",
]
