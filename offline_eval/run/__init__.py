"""Runs: a folder with a manifest and tables of rows, resumable after a kill.

Run.create_or_resume(folder, manifest) ─► run[TableSpec] ─► Table.append(row)   on disk
Calls(key, failed, limits).run(…) ─► one row per item, within CallLimits
"""

from __future__ import annotations

from ._run import Run
from .calls import CallLimits
from .manifest import Stored
from .questions import Question, RowError
from .replies import RepliesRun

__all__ = ["CallLimits", "Question", "RepliesRun", "RowError", "Run", "Stored"]
