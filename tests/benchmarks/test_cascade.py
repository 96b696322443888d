"""The benchmark of cascades: what its columns mean, and that it says so where data is absent."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import BENCHMARKS


@pytest.fixture(scope="module")
def cascade() -> Any:
    spec = importlib.util.spec_from_file_location("cascade_benchmark", BENCHMARKS / "cascade.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


@pytest.fixture
def judges(cascade: Any, tmp_path: Path) -> Any:
    """Forty questions, a cheap score that tells a little, and judges that know all."""
    folder = tmp_path / "nomiracl"
    folder.mkdir()
    rows = [
        {
            "question": f"q{i}?",
            "passages": ["p"],
            "sufficient": i % 2 == 0,
            "verdicts": dict.fromkeys(cascade.JUDGES.values(), "yes" if i % 2 == 0 else "no"),
        }
        for i in range(40)
    ]
    (folder / "en_even.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = tmp_path / "scores.json"
    cheap = [float((i * 7) % 40 + 6 * (i % 2 == 0)) for i in range(40)]
    cross = [9.0 if i % 2 == 0 else -9.0 for i in range(40)]
    scores.write_text(json.dumps({"sufficiency": cheap, cascade.CROSS: cross}))
    return cascade.judged_questions(tmp_path, scores)


def test_the_ends_are_the_cheap_scorer_and_the_judge(
    cascade: Any, judges: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade, "RESAMPLES", 10)
    line = list(cascade.auroc_lines(judges))[2]
    alone, *shares = [float(cell) for cell in line.split("|")[2:-2]]
    judged = judges["GPT-4"]
    assert shares[0] == round(cascade.auroc(judged.cheap, judged.sufficient), 3)
    assert alone == shares[-1] == 1.0
    assert shares == sorted(shares)


def test_at_a_leak_a_wider_band_covers_more(cascade: Any, judges: Any) -> None:
    line = list(cascade.coverage_lines(judges))[2]
    covered = [float(cell.split("(")[0]) for cell in line.split("|")[3:-1]]
    assert covered[-1] >= covered[0]


def test_a_deal_is_certified_and_measured_on_the_rest(cascade: Any, judges: Any) -> None:
    covered, leak, asked, sure = cascade.certified(judges["GPT-4"], 0.4, 0.0, 0)
    assert sure in (0.0, 1.0)
    assert 0 <= covered <= 1
    assert 0 <= leak <= 1
    assert 0 <= asked <= 1


def test_absent_data_is_said(
    cascade: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["cascade.py", "--data", str(tmp_path)])
    cascade.main()
    assert "skipped" in capsys.readouterr().out
