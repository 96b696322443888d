"""Systems under test: models × prompts × retrievals × guards, asked or replayed.

    questions ─► cases ─► context (once per retrieval) ─► guard ─► model ─► a row of replies

A guard decides on the question and its passages before anything is asked: what it lets
through is answered from the passages it kept, or from memory; else its own reply stands.
"""

from __future__ import annotations

from ._bases import AskedBase, read_bases
from ._citations import split_citation
from ._estimating import SystemEstimate, estimate
from ._guard_choices import OFF, GuardChoice, load_guard_choices
from ._judging import judge_replies
from ._preparing import Comparison, Prepared, prepare
from ._prompts import PROMPTS, SystemPrompt, load_system_prompt
from ._running import RepliesDone, run_replies
from ._settings import CASES, CallLimits, Progress, RepliesSettings

__all__ = [
    "CASES",
    "OFF",
    "PROMPTS",
    "AskedBase",
    "CallLimits",
    "Comparison",
    "GuardChoice",
    "Prepared",
    "Progress",
    "RepliesDone",
    "RepliesSettings",
    "SystemEstimate",
    "SystemPrompt",
    "estimate",
    "judge_replies",
    "load_guard_choices",
    "load_system_prompt",
    "prepare",
    "read_bases",
    "run_replies",
    "split_citation",
]
