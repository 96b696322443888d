"""Gates: what a report must not say if a release is to go out.

    report.json + expressions ─► check_gates ─► one result each; exit code 1 where one failed

An expression states what is *not* to be, as after `--fail-if`:

    abstention_rate<0.9                         the rate's value
    abstention_rate.low<85%                     the lower end of its interval
    systems[gpt-4o·hyde].replies.tier_3>5       a part of a list, by name or by position
    methods[lm_uniknow@abstention=0.5].rely<0.6
"""

from __future__ import annotations

from ._check import GateResult, check_gates
from ._expression import Gate, parse_gate
from ._lookup import GATE_ALIASES

__all__ = ["GATE_ALIASES", "Gate", "GateResult", "check_gates", "parse_gate"]
