"""`knowgate tune scenarios`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.offline_eval.suites.uniknow._bundled import read_dataset
from knowgate.offline_eval.suites.uniknow._cases import Knowledge, KnowledgeEstimate
from knowgate.offline_eval.suites.uniknow._knowledge import KnowledgeStore
from knowgate.offline_eval.suites.uniknow.methods import UniKnowSettings
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.offline_eval.cli.commands import Knowgate, write_lines


def write_known_half(questions: Path, path: Path) -> Path:
    """Store that every other question is known, the first among them."""
    dataset = read_dataset(questions)
    lm = HuggingFaceLM(microworld_model_path(), device="cpu", max_new_tokens=24)
    store = KnowledgeStore(path)
    key = store.key_for(lm.fingerprint, dataset.prompts.closed_book, UniKnowSettings())
    sides = (Knowledge.KNOWN, Knowledge.UNKNOWN)
    store.add(
        key,
        [
            (question, KnowledgeEstimate(sides[n % 2], 7 * (1 - n % 2), 10))
            for n, question in enumerate(dataset.questions)
        ],
    )
    return path


NAMES = ["Ash", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Pine"]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Ten questions, each with a text of its own."""
    return write_lines(
        tmp_path / "questions.jsonl",
        [
            {
                "id": f"q{n}",
                "question": f"Which tree stands in yard {n}?",
                "answers": [f"{name} Tree"],
                "context": f"Yard {n} is old. A {name} Tree stands in yard {n} beside the well.",
            }
            for n, name in enumerate(NAMES)
        ],
    )


@pytest.fixture
def asked(questions: Path, tmp_path: Path) -> Path:
    """A file that says what the embedded model knows: every other question."""
    return write_known_half(questions, tmp_path / "knowledge.jsonl")


@pytest.mark.slow
def test_an_adapter_is_trained_and_can_be_served(
    knowgate: Knowgate, questions: Path, asked: Path, tmp_path: Path
) -> None:
    outcome = knowgate(
        "tune", "scenarios", "--method", "dpo", "--data", questions, "--knowledge", asked,
        "--training", "epochs=1,device=cpu", "--out", tmp_path / "adapter",
    )  # fmt: skip

    assert outcome.code == 0, outcome
    told = json.loads((tmp_path / "adapter" / "training.json").read_text(encoding="utf-8"))
    assert f"{told['examples']} examples" in outcome.out
    assert told["examples"] % 8 == 0
    assert told["identity"]["objective"] == "preference"
    lm = HuggingFaceLM(microworld_model_path(), adapter=tmp_path / "adapter", max_new_tokens=4)
    assert lm.generate(["Question: Which tree?\nAnswer:"])[0][0].text
