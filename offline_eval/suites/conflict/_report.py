"""The report of a run of the conflict suite: whom the model follows, and when.

run folder ─► read_conflict_run ─► scores ─► view ─► report.json, .md, .html
"""

from __future__ import annotations
