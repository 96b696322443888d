"""`--scorer judge:MODEL`: a language model judges sufficiency, wherever a scorer is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowgate.guard import Policy
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines

MODULE = """
import re

from langchain_core.language_models import FakeListChatModel
from knowgate.guard.testing import ScriptedLanguageModel

lm = ScriptedLanguageModel({"opens at nine": "yes"}, default="no")
chat = FakeListChatModel(responses=["yes"])
rambling = ScriptedLanguageModel(default="Perhaps.")


class Toy(ScriptedLanguageModel):
    def _answers(self, prompt, n, temperature, seed):
        thing = re.search("When does the (.*) open", prompt)
        found = thing is not None and f"The {thing[1]} opens at" in prompt
        return [self._generation("yes" if found else "no")] * n


toy = Toy(logprobs={"yes": -0.2, "no": -0.1})
"""
LINES = [
    {"question": "When does it open?", "passages": ["It opens at nine.", "Dogs are welcome."]},
    {"question": "Who?", "passages": ["Dogs are welcome."]},
    {"question": "Who?", "passages": []},
]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the models are, as the command line names them."""
    (tmp_path / "own_judges.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_judges", raising=False)
    write_lines(tmp_path / "in.jsonl", LINES)
    return "judge:python:own_judges"


def _score(knowgate: Knowgate, scorer: str) -> list[object]:
    done = knowgate("apply", "--scorer", scorer, "--input", "in.jsonl", "--output", "out.jsonl")
    assert done.code == 0, done.err
    return [(line["relevance"], line["error"]) for line in read_lines(Path("out.jsonl"))]


def test_a_local_model_scores_both_words(knowgate: Knowgate, models: str) -> None:
    Path("short.txt").write_text("{mark} {question} {passages} Enough?")
    scored, empty = _score(knowgate, "judge:embedded,prompt=short.txt")[1:]
    assert isinstance(scored, tuple)
    assert 0 < scored[0] < 1
    assert empty == (0.0, None)


def test_a_policy_is_calibrated_on_a_judge_and_bound_to_it(
    knowgate: Knowgate, models: str, workplace: Path
) -> None:
    run, policy = workplace / "judged", workplace / "judged.json"
    measured = knowgate(
        "measure", "--questions", workplace / "kb.jsonl", "--out", run, "--scorer", f"{models}:toy"
    )
    assert measured.code == 0, measured.err
    scorer = json.loads((run / "manifest.json").read_text())["settings"]["scorer"]
    assert (scorer["kind"], scorer["settings"]["language_model"]) == ("judge", "scripted")
    fitted = knowgate("calibrate", "--run", run, "--risk", "0.2", "--out", policy)
    assert fitted.code == 0, fitted.err
    assert Policy.load(policy).aggregator == "joint"
    asked = ("apply", "--policy", policy, "--input", "in.jsonl", "--output", "out.jsonl")
    refused(knowgate(*asked), "language model that judges", "--scorer judge:MODEL")
    refused(knowgate(*asked, "--scorer", f"{models}:toy,samples=2"), "settings.samples")
    assert knowgate(*asked, "--scorer", f"{models}:toy").code == 0
