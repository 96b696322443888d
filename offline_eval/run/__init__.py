"""Runs: a folder with a manifest and tables of rows, resumable after a kill.

Run.create_or_resume(folder, manifest) ─► run[TableSpec] ─► Table.append(row)   on disk
Calls(key, failed, limits).run(…) ─► one row per item, within CallLimits
"""

from __future__ import annotations

from ._calls import (
    CallLimits,
    Calls,
    OnProgress,
    OnStep,
    Progress,
    RayPool,
    RunTotals,
    Tally,
    each_or_error,
    generate_each,
)
from ._event_loop import run_interruptibly
from ._manifest import InputFile, Manifest, Stored
from ._measured_run import MeasuredRun, Review
from ._questions import (
    CaseKind,
    FoundBy,
    LeaveOut,
    MeasuredManifest,
    MeasuredRow,
    Question,
    RowError,
    SourceRow,
)
from ._replies import (
    Judgement,
    RepliesAsked,
    RepliesManifest,
    RepliesRun,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from ._run import Run
from ._table import SharedLog, Table, TableSpec

__all__ = [
    "CallLimits",
    "Calls",
    "CaseKind",
    "FoundBy",
    "InputFile",
    "Judgement",
    "LeaveOut",
    "Manifest",
    "MeasuredManifest",
    "MeasuredRow",
    "MeasuredRun",
    "OnProgress",
    "OnStep",
    "Progress",
    "Question",
    "RayPool",
    "RepliesAsked",
    "RepliesManifest",
    "RepliesRun",
    "ReplyCase",
    "ReplyContext",
    "ReplyRow",
    "ReplySystem",
    "Review",
    "RowError",
    "Run",
    "RunTotals",
    "SharedLog",
    "SourceRow",
    "Stored",
    "StoredPassage",
    "Table",
    "TableSpec",
    "Tally",
    "each_or_error",
    "generate_each",
    "run_interruptibly",
]
