"""A threshold without a promise, and refusals that say what would work."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard import Guard, Policy
from tests.offline_eval.cli.commands import Knowgate, read_lines, write_lines

_NUMBER = r"(\d+(?:\.\d+)?)"


@pytest.fixture
def blurred(workplace: Path) -> Path:
    """A run of 60 questions whose relevance tells the cases apart, but not well."""
    rng = np.random.default_rng(3)
    (workplace / "policy.json").unlink()
    run = workplace / "run"
    for name in ("calibration.json", "calibrations.jsonl"):
        (run / name).unlink()
    rows = read_lines(run / "rows.jsonl")
    for row in rows:
        raw = float(rng.normal(1.5 if row["kind"] == "in_kb" else 0.0, 1.0))
        row |= {"raw_relevance": raw, "scores": [raw for _ in row["scores"]]}
    write_lines(run / "rows.jsonl", rows)
    return workplace


def _calibrate(knowgate: Knowgate, folder: Path, *options: str) -> Any:
    return knowgate("calibrate", "--run", folder / "run", "--out", folder / "new.json", *options)


def _report(knowgate: Knowgate, folder: Path) -> tuple[str, dict[str, Any]]:
    assert knowgate("report", folder / "run", "--out", folder / "rep").code == 0
    text = (folder / "rep" / "report.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    return text, json.loads((folder / "rep" / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (("--cost", "leak=5"), "for costs (a leak costs 5, an abstention 1)"),
        (
            ("--cost", "leak=5,abstention=2,missing_share=0.3"),
            "for costs (a leak costs 5, an abstention 2, 0.3 of the questions without an answer)",
        ),
        (("--max-abstention", "0.25"), "to abstain from at most 25% of answerable questions"),
    ],
)
def test_costs_write_a_policy_that_says_everywhere_that_nothing_is_guaranteed(
    knowgate: Knowgate, blurred: Path, options: tuple[str, ...], chosen: str
) -> None:
    said = _calibrate(knowgate, blurred, *options)
    text, figures = _report(knowgate, blurred)

    assert (said.code, said.err) == (0, "")
    note = f"Threshold chosen {chosen} on 60 questions; nothing is guaranteed."
    assert said.out.startswith("lets through about ")
    assert "; nothing is guaranteed\n" in said.out
    assert note in said.out
    assert "onfidence 90%" not in said.out
    policy = Policy.load(blurred / "new.json")
    assert (policy.guarantee, policy.note, policy.state) == (None, note, "costs")
    assert Guard.load(blurred / "new.json", metrics=False).policy == policy
    assert not (blurred / "run" / "calibrations.jsonl").exists()  # no attempt
    assert note in text.replace("\\", "")
    assert figures["policy"]["guarantee"] is None
    # The report judges each question by the same threshold as the printed rates.
    shown = re.search(rf"abstains from about {_NUMBER}%", said.out)
    assert shown is not None
    value = figures["in_kb"]["false_abstention_rate"]["value"]
    assert float(shown[1]) == pytest.approx(100 * value, abs=0.06)


# -- check ------------------------------------------------------------------------------


def test_check_measures_with_the_scorer_of_the_policy_that_it_judges_by(
    knowgate: Knowgate, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(finished_run / "kb.jsonl", tmp_path)
    policy = finished_run / "policy.json"  # of the lexical scorer, which is not the default

    said = knowgate("check", "--questions", "kb.jsonl", "--policy", policy)

    assert said.code == 0, said.err
    manifest = json.loads((tmp_path / "knowgate-check" / "run" / "manifest.json").read_text())
    assert manifest["settings"]["scorer"]["kind"] == "lexical"
