"""Runs: a folder with a manifest and tables of rows, resumable after a kill.

Run.create_or_resume(folder, manifest) ─► run[TableSpec] ─► Table.append(row)   on disk
run_calls(items, call, table, …)            one row per item, within CallLimits
"""

from __future__ import annotations

from ._calls import run_calls, run_calls_sync
from ._event_loop import in_threads, run_interruptibly
from ._generation import each_or_error, error_note, generate_each
from ._limits import CallLimits
from ._manifest import (
    SCHEMA_VERSION,
    InputFile,
    Manifest,
    Stored,
    checked_model,
    holds_run,
    read_manifest,
    read_versioned,
)
from ._measured_run import PASSAGES, SOURCES, MeasuredRun, read_measured_run
from ._progress import OnProgress, OnStep, Progress, RunTotals, Tally
from ._questions import (
    TWINS,
    CaseKind,
    FoundBy,
    MeasuredManifest,
    MeasuredRow,
    Question,
    RowError,
    SourceRow,
)
from ._ray_calls import RayPool, run_calls_ray_sync
from ._replies import (
    ABSTENTION,
    ESTIMATE,
    FACTUALITY,
    GIVEN_JUDGE,
    HOLDS_REPLIES,
    TIERS,
    Judgement,
    RepliesManifest,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from ._reply_run import (
    JUDGEMENTS,
    REPLIES,
    RepliesAsked,
    RepliesRun,
    holds_replies,
    read_replies_run,
    start_replies_run,
)
from ._run import Run
from ._table import SharedLog, Table, TableSpec, open_table, read_table, write_table

__all__ = [
    "ABSTENTION",
    "ESTIMATE",
    "FACTUALITY",
    "GIVEN_JUDGE",
    "HOLDS_REPLIES",
    "JUDGEMENTS",
    "PASSAGES",
    "REPLIES",
    "SCHEMA_VERSION",
    "SOURCES",
    "TIERS",
    "TWINS",
    "CallLimits",
    "CaseKind",
    "FoundBy",
    "InputFile",
    "Judgement",
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
    "checked_model",
    "each_or_error",
    "error_note",
    "generate_each",
    "holds_replies",
    "holds_run",
    "in_threads",
    "open_table",
    "read_manifest",
    "read_measured_run",
    "read_replies_run",
    "read_table",
    "read_versioned",
    "run_calls",
    "run_calls_ray_sync",
    "run_calls_sync",
    "run_interruptibly",
    "start_replies_run",
    "write_table",
]
