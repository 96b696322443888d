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


@pytest.mark.parametrize("risk", ["0.01", "0.1"])  # uncertified; abstains from too much
def test_a_refusal_names_bounds_that_are_those_of_the_next_attempt(
    knowgate: Knowgate, blurred: Path, risk: str
) -> None:
    said = _calibrate(knowgate, blurred, "--risk", risk)
    assert said.code == 3
    lines = re.findall(r"  next: (.+)", said.err)
    history = (blurred / "run" / "calibrations.jsonl").read_text(encoding="utf-8")
    assert history.count("\n") == 1  # what was tried for the advice counts as nothing

    smallest = re.findall(rf"--risk {_NUMBER} is the smallest bound that can be", said.err)
    assert len(smallest) == (risk == "0.01")
    assert len(re.findall(r"smallest bound that (?:can|these)", said.err)) == len(smallest)
    [(bound, share)] = re.findall(rf"--risk {_NUMBER} abstains from (\d+)%", said.err)
    assert float(bound) > float(smallest[0] if smallest else risk)
    assert set(re.findall(r"attempt (\d+) on this data\)", said.err)) == {"2"}
    assert any("tells the cases apart better" in line for line in lines)
    assert any(line.startswith("`knowgate label ") for line in lines)
    assert any("more questions" in line or "more passages" in line for line in lines)

    # They hold what they say.
    taken = _calibrate(knowgate, blurred, "--risk", bound, "--json")
    found = json.loads(taken.out)
    assert (taken.code, found["certified"]) == (0, True)
    assert f"{found['rates']['false_abstention']['value']:.0%}" == f"{share}%"
    assert "attempt 2 on this data" in found["statement"]
    [(limit, passing, abstained)] = re.findall(
        rf"--max-abstention {_NUMBER} lets through about (\d+)% of left-out questions and abstains "
        r"from about (\d+)%",
        said.err,
    )
    rates = json.loads(_calibrate(knowgate, blurred, "--max-abstention", limit, "--json").out)
    assert f"{1 - rates['rates']['left_out_abstention']['value']:.0%}" == f"{passing}%"
    assert f"{rates['rates']['false_abstention']['value']:.0%}" == f"{abstained}%"


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
