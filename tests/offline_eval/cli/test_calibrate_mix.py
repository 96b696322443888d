"""`--scorer mix:A+B` and `calibrate --mix`: measured, fitted on a part, certified on the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Guard, Policy
from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, refused, write_lines

# Two rerankers that are each wrong about other questions; `alike` is nothing but the first.
CHAIN = """
import math

from langchain_core.documents import Document

TEXTS = [f"Gate {n} opens at {n} o'clock." for n in range(240)]


def noise(n, m, key):
    return 2.2 * math.sin(12.9898 * n + 78.233 * m + 37.719 * key) * math.cos(5.1 * n * key + m)


def search(question, k=3):
    asked = int(question.split()[-1].rstrip("?"))
    found = []
    for n, text in enumerate(TEXTS):
        own = 2.0 * (n == asked)
        first, second = own + noise(asked, n, 1), 100 * (own + noise(asked, n, 2))
        given = {"source": f"gate-{n}", "first": first, "second": second, "alike": 3 * first}
        near = -abs(n - asked)
        found.append((near, Document(text, metadata=given)))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])][:k]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a chain and questions."""
    (tmp_path / "mixed_pages.py").write_text(CHAIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = [
        {"question": f"When does it open, gate {n}?", "source": f"gate-{n}"} for n in range(240)
    ]
    write_lines(tmp_path / "q.jsonl", asked)
    return tmp_path


def measure(knowgate: Knowgate, scorer: str, *more: str) -> Outcome:
    return knowgate(
        "measure", "--chain", "mixed_pages:search", "--questions", "q.jsonl",
        "--scorer", scorer, "--out", "runs", *more,
    )  # fmt: skip


def calibrate(knowgate: Knowgate, *more: str) -> Outcome:
    runs = [part for one in sorted(Path("runs").glob("*/")) for part in ("--run", str(one))]
    return knowgate("calibrate", *runs, "--risk", "0.3", "--delta", "0.2", "--out", "p.json", *more)


def test_a_mix_that_is_better_is_taken_and_served(knowgate: Knowgate, folder: Path) -> None:
    done = measure(knowgate, "mix:metadata:first+metadata:second")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith(
        "next: knowgate calibrate --run runs/metadata_first"
    )
    assert done.out.splitlines()[-1].endswith(" --mix --out policy.json")

    done = calibrate(knowgate, "--mix", "--json")

    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert found["mix"]["taken"]
    assert found["mix"]["cases"] == 160, "a third of 240 questions, each asked twice"
    assert found["questions"] == 160, "the others are the test"
    policy = Policy.load(folder / "p.json")
    assert [part.settings["key"] for part in policy.scorer.parts] == ["first", "second"]
    assert policy.scorer.settings["value_1"] > 50 * policy.scorer.settings["value_2"] > 0  # type: ignore[operator]
    # The report of a run knows nothing of the other runs.
    assert not list(folder.glob("runs/*/calibration.json"))
    guard = Guard.load(folder / "p.json", metrics=False)
    good, bad = (
        {"text": "A gate.", "metadata": {"first": one, "second": 100 * one}} for one in (4.0, -1.0)
    )
    assert guard.decide("Which?", [good, bad]).route == "follow_context"
    assert guard.decide("Which?", [bad, bad]).route == "abstain"
    write_lines(
        folder / "live.jsonl", [{"question": "Which?", "passages": [good, bad]} for _ in range(30)]
    )
    for more in ([], ["--scorer", "mix:metadata:first+metadata:second"]):
        done = knowgate(
            "apply", "--policy", "p.json", "--input", "live.jsonl", "--output", "x.jsonl", *more
        )
        assert done.code == 0, done.err
    decisions = [guard.decide("Which?", [good, bad]).model_dump(mode="json") for _ in range(30)]
    write_lines(folder / "decisions.jsonl", decisions)
    assert len(read_lines(folder / "x.jsonl")) == 30
    done = knowgate("drift", "--policy", "p.json", "--input", "decisions.jsonl", "--json")
    assert done.code == 0, done.err


def test_a_mix_that_is_no_better_is_left_for_its_best_scorer(
    knowgate: Knowgate, folder: Path
) -> None:
    assert measure(knowgate, "mix:metadata:first+metadata:alike").code == 0
    done = calibrate(knowgate, "--mix", "--write-anyway")
    assert done.code == 0, done.err
    assert "the mix is not taken, but metadata:" in done.out.replace("\n", " ")
    policy = Policy.load(folder / "p.json")
    assert policy.scorer.kind == "metadata"
    assert policy.aggregator == "max"


def test_what_cannot_be_mixed_is_refused(knowgate: Knowgate, folder: Path) -> None:
    mix = "mix:metadata:first+metadata:second"
    refused(measure(knowgate, mix, "--scorer", "lexical"), "a mix is measured by itself")
    refused(measure(knowgate, mix, "--dry-run"), "--dry-run")
    refused(measure(knowgate, "mix:lexical"), "no mix of two to 5")
    refused(knowgate("check", "--questions", "q.jsonl", "--scorer", mix), "two commands")
    assert measure(knowgate, mix, "--limit", "12").code in (0, 1)
    refused(calibrate(knowgate, "--mix", "--promise", "selective"), "--mix", "selective")
    refused(calibrate(knowgate, "--mix"), "too few to fit a mix")
    run = next(folder.glob("runs/*/"))
    alone = ("calibrate", "--run", run, "--out", "p.json", "--mix")
    refused(knowgate(*alone), "mixes two to 5 runs, not 1")
    refused(knowgate(*alone, "--run", run), "was measured by the scorer of")
