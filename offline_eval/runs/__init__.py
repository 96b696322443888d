"""Runs: cases × system, stored row by row, resumable after a kill."""

from __future__ import annotations

from ._store import SCHEMA_VERSION, RunStore, open_run, read_manifest, read_versioned

__all__ = ["SCHEMA_VERSION", "RunStore", "open_run", "read_manifest", "read_versioned"]
