"""Import replies in the formats of other tools."""

from __future__ import annotations

from ._knowornot import import_knowornot
from ._lm_eval import import_lm_eval
from ._replay import read_logs

__all__ = ["import_knowornot", "import_lm_eval", "read_logs"]
