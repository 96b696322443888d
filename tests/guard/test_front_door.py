"""`from knowgate import …` is lazy, and `Guard.default()` starts in one line."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import knowgate
from knowgate.guard import Guard, GuardMetrics, Route
from knowgate.guard._guard import _log_uncalibrated

PROGRAM = """
import json, sys
import knowgate
before = sorted({name.split(".")[0] for name in sys.modules})
from knowgate import Decision, Guard, GuardedRAG, Policy, Route
print(json.dumps([before, Guard.__module__, GuardedRAG.__module__, knowgate.__all__]))
"""


@pytest.mark.slow
def test_importing_knowgate_loads_nothing_until_a_name_is_used() -> None:
    root = Path(__file__).resolve().parents[2]
    output = subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=root)
    before, guard, chain, names = json.loads(output)

    assert not {"torch", "langchain_core", "pydantic", "numpy"} & set(before)
    assert (guard, chain) == ("knowgate.guard._guard", "knowgate.adapters.langchain._guarded_rag")
    assert names == sorted(names)


def test_unknown_names_are_attribute_errors_and_dir_shows_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gard'"):
        _ = knowgate.Gard
    assert set(knowgate.__all__) <= set(dir(knowgate))


@pytest.mark.slow
def test_the_default_guard_decides_and_says_that_it_is_not_calibrated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    _log_uncalibrated.cache_clear()  # other tests may have made one
    with caplog.at_level(logging.WARNING, logger="knowgate.guard"):
        guard = Guard.default(metrics=GuardMetrics(registry))
        Guard.default(metrics=False)

    opens = "When does the library open?"
    assert guard.decide(opens, ["The library opens at nine."]).route is Route.FOLLOW_CONTEXT
    assert guard.decide(opens, ["Dogs must be registered."]).route is Route.ABSTAIN
    assert "not calibrated on your data" in guard.policy.note
    assert not guard.policy.calibrated
    assert guard.policy.guarantee is None
    assert (
        registry.get_sample_value(
            "knowgate_guards_total", {"guard": "default", "calibrated": "false"}
        )
        == 1
    )
    said = [one for one in caplog.records if "not calibrated on your data" in one.getMessage()]
    assert len(said) == 1


def test_the_accurate_default_reads_and_names_its_own_threshold(ms_marco: None) -> None:
    guard = Guard.default(accurate=True, metrics=False)
    assert guard.policy.scorer.kind == "sufficiency_cross"
    opens = "When does the library open?"
    assert guard.decide(opens, ["The library opens at nine."]).route is Route.FOLLOW_CONTEXT
    told = "Details on when the library opens are available on request."
    assert guard.decide(opens, [told, "Dogs must be registered."]).route is Route.ABSTAIN
