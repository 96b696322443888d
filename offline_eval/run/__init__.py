"""Runs: cases × system, stored row by row, resumable after a kill."""

from __future__ import annotations

from ._calls import CallProgress, RunTotals, run_calls, run_calls_sync, run_interruptibly
from ._generation import each_or_error, error_note, generate_each
from ._manifest import SCHEMA_VERSION, checked_model, holds_run, read_manifest, read_versioned
from ._measured_run import OokbRun, read_ookb_run
from ._ordered_store import open_run
from ._questions import TWINS, CaseKind, InputFile, OokbQuestion, OokbRow, RowError
from ._ray_calls import run_calls_ray_sync
from ._replies import (
    ABSTENTION,
    ESTIMATE,
    FACTUALITY,
    GIVEN_JUDGE,
    HOLDS_REPLIES,
    TIERS,
    Judgement,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from ._reply_run import RepliesRun, holds_replies, read_replies_run, start_replies_run
from ._store import RowStore, StoreKind, open_store, stored_rows
from ._table import StoreLock, sole_writer

__all__ = [
    "ABSTENTION",
    "ESTIMATE",
    "FACTUALITY",
    "GIVEN_JUDGE",
    "HOLDS_REPLIES",
    "SCHEMA_VERSION",
    "TIERS",
    "TWINS",
    "CallProgress",
    "CaseKind",
    "InputFile",
    "Judgement",
    "OokbQuestion",
    "OokbRow",
    "OokbRun",
    "RepliesRun",
    "ReplyCase",
    "ReplyContext",
    "ReplyRow",
    "ReplySystem",
    "RowError",
    "RowStore",
    "RunTotals",
    "StoreKind",
    "StoreLock",
    "StoredPassage",
    "checked_model",
    "each_or_error",
    "error_note",
    "generate_each",
    "holds_replies",
    "holds_run",
    "open_run",
    "open_store",
    "read_manifest",
    "read_ookb_run",
    "read_replies_run",
    "read_versioned",
    "run_calls",
    "run_calls_ray_sync",
    "run_calls_sync",
    "run_interruptibly",
    "sole_writer",
    "start_replies_run",
    "stored_rows",
]
