"""The help desk of the examples: measure → calibrate → guarded answers → report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.helpdesk import run as helpdesk
from knowgate.guard import Policy
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import write_report
from tests.guard.engine.remembered import remembered_encoders
from tests.support.plots import light_plots


@pytest.mark.slow
def test_the_help_desk_is_calibrated_on_its_own_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"

    with remembered_encoders():
        before, after = helpdesk.main(str(folder))

    printed = capsys.readouterr().out
    assert printed.count("right: ") == 2
    assert before >= 48
    run = MeasuredRun.read(folder)
    assert len(run.rows) == 60
    assert {one.found_by.value for one in run.sources.values()} == {"metadata"}
    for row in run.rows:
        own = run.questions[row.question_id].own_passage
        if row.kind is CaseKind.LEFT_OUT:
            assert not any(name.startswith(f"{own}#") for name in row.retrieved)
            assert len(row.retrieved) == 5
    assert Policy.load(folder / "policy.json").guarantee is not None
    # The calibrated guard keeps a bound on leaks; the default one is near its best threshold here.
    assert after >= 48
    with light_plots():
        written = write_report(folder, out_dir=tmp_path / "report")
    values = json.loads(written.json.read_text(encoding="utf-8"))
    assert values["served"]["sources_found_by"] == {"metadata": 30}
