"""`knowgate judge`: verdicts on the replies of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.cli.commands import Knowgate
from tests.offline_eval.judging.runs import ANSWER, REFUSAL, replies_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return replies_run(tmp_path / "run", {"right": ANSWER, "refused": REFUSAL, "failed": None})


@pytest.mark.slow
def test_the_offline_judges_are_the_default(knowgate: Knowgate, run: Path) -> None:
    outcome = knowgate("judge", run)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("4 verdicts added (0 failed), 0 there before → ")
    assert f"knowgate report {run}" in outcome.out
    found = {name: row.outcome for name, row in RepliesRun.read(run).judgements.items()}
    assert found == {
        "s/right/abstention/detector": "no",
        "s/refused/abstention/detector": "yes",
        "s/right/factuality/estimate": "tier_1",
        "s/refused/factuality/estimate": "NA",
    }
    assert "0 verdicts added (0 failed), 4 there before" in knowgate("judge", run).out
