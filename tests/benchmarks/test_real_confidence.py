"""The run over a real model resumes without asking twice, and chooses its questions by label."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Generation
from tests.support.paths import BENCHMARKS


class Counting:
    """A model that counts the generations it gives."""

    name, batch_size, max_new_tokens, device, fingerprint = "counting", 8, 4, "cpu", "counting"

    def __init__(self) -> None:
        self.given = 0

    def generate(
        self, prompts: list[str], *, n: int, temperature: float, seed: int
    ) -> list[list[Generation]]:
        self.given += n * len(prompts)
        return [
            [Generation(f"{prompt} {temperature} {seed + k}", (-0.5,)) for k in range(n)]
            for prompt in prompts
        ]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("real_confidence_store", "real_confidence_questions")
    yield tuple(importlib.import_module(name) for name in names)
    for name in names:
        sys.modules.pop(name, None)


def test_draws_are_stored_and_never_asked_for_again(modules: Any, tmp_path: Path) -> None:
    store, _ = modules
    file, model = tmp_path / "draws.jsonl", Counting()

    first = store.StoredLM(model, file).generate(["a", "b"], n=3, temperature=0.5, seed=1)
    resumed = store.StoredLM(model, file)
    later = resumed.generate(["b"], n=2, temperature=0.5, seed=2)

    assert model.given == 6
    assert later[0] == first[1][1:]
    resumed.generate(["a"], n=3, temperature=1.0, seed=1)
    assert model.given == 9


def test_all_questions_answered_rightly_are_kept_and_some_of_the_others(modules: Any) -> None:
    _, questions = modules
    asked = [questions.Asked(f"q{number}?", ("x",)) for number in range(50)]
    right = [number < 5 for number in range(50)]

    found = [one for one in questions.chosen(asked, right, wrong=10) if not one.easy]

    assert len(found) == 15
    assert set(asked[:5]) <= set(found)


def test_an_answer_counts_where_it_stands_in_the_reply_as_whole_words(modules: Any) -> None:
    _, questions = modules
    assert questions.holds("A spider has eight legs.", ("8",))
    assert not questions.holds("In 1980.", ("8",))
