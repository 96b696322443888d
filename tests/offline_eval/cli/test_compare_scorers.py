"""`knowgate measure` of several scorers: the same cases for all, and nothing measured twice."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.guard.errors import LanguageModelError
from knowgate.guard.signals.relevance import LexicalScorer, register_scorer
from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, refused
from tests.offline_eval.suites.ookb.toy import write_toy_questions

MODULE = """
import re

from knowgate.guard.testing import ScriptedLanguageModel


class Toy(ScriptedLanguageModel):
    def _answers(self, prompt, n, temperature, seed):
        thing = re.search("When does the (.*) open", prompt)
        found = thing is not None and f"The {thing[1]} opens at" in prompt
        return [self._generation("yes" if found else "no")] * n


toy = Toy(logprobs={"yes": -0.2, "no": -0.1})
"""


class _Broken(LexicalScorer):
    """Fails on half of the questions, as a language model does without its provider."""

    working = False
    asked = 0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="sometimes")

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        type(self).asked += 1
        if not self.working and "library" in question:
            raise LanguageModelError("the provider is away")
        return super().score(question, passages)


class _Tuned(LexicalScorer):
    def tuned_on(self, question: str) -> bool:
        return "library" in question


register_scorer("sometimes", _Broken)
register_scorer("tuned_here", _Tuned)


@pytest.fixture
def compare(knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Knowgate:
    """Compares scorers on 32 questions."""
    (tmp_path / "own_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    monkeypatch.setattr(_Broken, "working", False)
    monkeypatch.setattr(_Broken, "asked", 0)
    write_toy_questions(tmp_path / "kb.jsonl", 32)

    def run(*arguments: str | Path) -> Outcome:
        return knowgate(
            "measure", "--questions", "kb.jsonl", "--out", "scorer-comparison", *arguments
        )

    return run


def _scorers_of(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in value["scorers"]}


def test_scorers_are_measured_on_the_same_cases_and_one_is_named(compare: Knowgate) -> None:
    judge = "judge:python:own_models:toy"
    arguments = ("--scorer", "lexical", "--scorer", judge, "--risk", "0.1")
    printed = compare(*arguments, "--json")
    assert printed.code == 0, printed.err
    value = json.loads(printed.out)
    done = compare(*arguments)
    assert (value["questions"], value["passages"], value["risk"]) == (32, 32, 0.1)
    found = _scorers_of(value)
    assert list(found) == ["lexical", judge]
    assert found["lexical"]["calls_per_question"] == 0
    # Where the passage was not retrieved, both cases are one prompt, asked once.
    assert found[judge]["calls_per_question"] == 1 - value["retrieval_misses"] / 64
    assert found[judge]["auroc"]["value"] == 1.0
    assert all(one["milliseconds"] > 0 for one in found.values())
    assert value["choice"]["take"] == "lexical"
    assert value["choice"]["reason"] in done.out
    assert "false abstention at 0.1 leak" in done.out
    folders = sorted(path for path in Path("scorer-comparison").iterdir() if path.is_dir())
    cases = [[(row["case_id"], row["retrieved"]) for row in read_lines(one / "rows.jsonl")]
             for one in folders]  # fmt: skip
    assert len(cases[0]) == 64
    assert cases[0] == cases[1]
    assert "coverage-leak" in Path("scorer-comparison/report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scorer", "lexical", "--scorer", "lexical"), "named twice"),
        (("--scorer", "lexical", "--scorer", "nothing"), "unknown scorer 'nothing'"),
        (("--scorer", "lexical", "--scorer", "tuned_here"), "was tuned on 4 of these questions"),
        (("--scorer", "lexical", "--scorer", "sometimes", "--risk", "1"), "--risk"),
    ],
)
def test_what_cannot_be_compared_is_rejected_before_anything_is_measured(
    compare: Knowgate, arguments: tuple[str, ...], words: str
) -> None:
    refused(compare(*arguments), words)
    assert not Path("scorer-comparison").exists()
