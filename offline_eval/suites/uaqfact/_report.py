"""The report of a run of UAQFact: who declines when, and what it knows.

run folder ─► read_uaqfact_run ─► scores under both rules ─► view ─► report.json, .md, .html
"""

from __future__ import annotations
