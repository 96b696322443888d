"""`--scorer judge:MODEL`: a language model judges sufficiency, wherever a scorer is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowgate.guard import Guard, Policy
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


# A reranker whose scores lie between 0 and 1000: high where the passage has the question's number.
CHAIN = """
from langchain_core.documents import Document

TEXTS = [f"Gate {n} opens at {n} o'clock." for n in range(60)]


def score(question, n):
    own = f"gate {n}?" in question.lower()
    return 700.0 + 4 * n if own else 10.0 + 3 * n


def search(question, k=3):
    found = [
        Document(text, metadata={"source": f"gate-{n}", "points": score(question, n)})
        for n, text in enumerate(TEXTS)
    ]
    return sorted(found, key=lambda one: -one.metadata["points"])[:k]


def unscored(question, k=3):
    found = search(question, k)
    if " 7?" in question:
        del found[-1].metadata["points"]
    return found
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a chain and questions."""
    (tmp_path / "point_pages.py").write_text(CHAIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = [{"question": f"When does gate {n}?", "source": f"gate-{n}"} for n in range(60)]
    write_lines(tmp_path / "q.jsonl", asked)
    return tmp_path


def test_raw_scores_go_through_measure_calibrate_report_and_drift(
    knowgate: Knowgate, folder: Path
) -> None:
    measured = knowgate(
        "measure", "--chain", "point_pages:search", "--questions", "q.jsonl",
        "--scorer", "metadata:points", "--out", "run",
    )  # fmt: skip
    assert measured.code == 0, measured.err
    done = knowgate("calibrate", "--run", "run", "--risk", "0.1", "--out", "policy.json")
    assert done.code == 0, done.err
    policy = Policy.load(folder / "policy.json")
    assert policy.scorer.kind == "metadata"
    # Left-out questions score up to 187, answerable ones from 700 on.
    assert policy.relevance_threshold is not None
    assert policy.relevance_calibrator.apply(187.0) < policy.relevance_threshold
    assert policy.relevance_calibrator.apply(700.0) >= policy.relevance_threshold
    guard = Guard.load(folder / "policy.json")
    for points, route in ((700.0, "follow_context"), (187.0, "abstain")):
        passage = {"text": "A gate.", "metadata": {"points": points}}
        assert guard.decide("When?", [passage]).route == route
    assert knowgate("report", "run", "--out", "report").code == 0
    drifted = knowgate("drift", "--policy", "policy.json", "--run", "run")
    assert drifted.code == 0, drifted.err
    assert knowgate("drift", "--policy", "policy.json", "--run", "run", "--json").code == 0


def test_questions_with_a_passage_without_a_score_are_failed_rows(
    knowgate: Knowgate, folder: Path
) -> None:
    done = knowgate(
        "measure", "--chain", "point_pages:unscored", "--questions", "q.jsonl",
        "--scorer", "metadata:points", "--out", "run",
    )  # fmt: skip
    assert done.code == 1, done.err
    rows = read_lines(folder / "run" / "rows.jsonl")
    errors = [row["error"] for row in rows if row.get("error")]
    assert errors == [
        {
            "type": "SignalValueError",
            "detail": "relevance signal: 'points' in the metadata of a passage is missing",
        }
    ]


@pytest.mark.parametrize("where", [(), ("--documents", "pages")])
def test_where_no_retriever_scores_it_is_refused_at_once(
    knowgate: Knowgate, folder: Path, where: tuple[str, ...]
) -> None:
    (folder / "pages").mkdir()
    (folder / "pages" / "gates.md").write_text("Gate 0 opens at 0 o'clock.", encoding="utf-8")
    texts = [f"Gate {n} opens at {n} o'clock." for n in range(40)]
    asked = [{"question": f"When, {text}", "answer": "o'clock", "passage": text} for text in texts]
    write_lines(folder / "own.jsonl", asked)
    for scorers in (["metadata:points"], ["metadata:points", "lexical"]):
        named = [part for one in scorers for part in ("--scorer", one)]
        done = knowgate("measure", "--questions", "own.jsonl", *named, *where, "--out", "run")
        refused(done, "--scorer", "--chain MODULE:ATTRIBUTE")
