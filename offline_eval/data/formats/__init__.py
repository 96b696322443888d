"""Import and export replies in the formats of other tools."""

from __future__ import annotations

from ._knowornot_export import export_knowornot
from ._knowornot_import import import_knowornot
from ._lm_eval import import_lm_eval
from ._replay import read_logs

__all__ = [
    "export_knowornot",
    "import_knowornot",
    "import_lm_eval",
    "read_logs",
]
