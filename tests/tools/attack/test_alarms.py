"""Alarms where nothing has changed: few draws."""

from __future__ import annotations

import pytest

from tools.attack.alarms import false_drift, false_risk
from tools.attack.certificates import DELTA, most


@pytest.mark.slow
def test_alarms_are_as_rare_as_promised() -> None:
    assert false_drift("plain", 0.3, 8) <= most(8, 0.05)
    assert false_risk(40) <= most(40, DELTA)
