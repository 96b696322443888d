"""`benchmarks/serving.py`, a script and no package, with a model of a few kilobytes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import BENCHMARKS
from tools.attack.tiny_models import tiny_cross_encoder


@pytest.fixture
def serving() -> Iterator[Any]:
    for module in ("torch", "transformers", "sentence_transformers"):
        pytest.importorskip(module)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("serving")
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("serving", None)


def test_every_way_is_measured_with_every_number_of_callers(
    serving: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tiny_cross_encoder(tmp_path / "model")
    command = ["serving.py", "--size", "quick", "--rounds", "1", "--model", str(model)]
    monkeypatch.setattr(sys, "argv", command)
    serving.main()
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if "|" in line]
    measured = [(row[0].strip(), row[1].strip()) for row in rows[2:]]
    names = [
        serving.PEER,
        "CrossEncoderScorer.score",
        "Guard.adecide",
        "GuardedRAG.ainvoke",
    ]
    assert measured == [(callers, name) for callers in ("1", "8", "64") for name in names]
    assert all(0 < float(row[2]) <= float(row[3]) and float(row[4]) > 0 for row in rows[2:])
    assert [float(row[5]) for row in rows[2:] if row[1].strip() == serving.PEER] == [1, 1, 1]


def test_no_question_has_passages_that_were_read_before(serving: Any) -> None:
    size = serving.SIZES["quick"]
    drawn = [question for question, _ in zip(serving.questions(size), range(50), strict=False)]
    assert len({question for question, _ in drawn}) == 50
    assert all(len(passages) == size.passages for _, passages in drawn)
