"""Where things are on disk, so that a test file may move."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
# The public data beside the checkout; may be absent.
SHARED_DATA = ROOT.parent / "shared" / "data"
