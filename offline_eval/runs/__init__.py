"""Runs: cases × system, stored row by row, resumable after a kill."""

from __future__ import annotations

from ._checked import checked_model
from ._folder import holds_run
from ._manifest import SCHEMA_VERSION, read_manifest, read_versioned
from ._store import RunStore, open_run

__all__ = [
    "SCHEMA_VERSION",
    "RunStore",
    "checked_model",
    "holds_run",
    "open_run",
    "read_manifest",
    "read_versioned",
]
