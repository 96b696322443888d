"""Made-up questions: on topic, new, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from langchain_core.runnables import RunnableLambda

from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.systems.synthetic import clusters_of, synthetic_questions
from tests.offline_eval.suites.ookb.toy import ToyEncoder
from tests.support.fakes import FailingLanguageModel

FERRY = [
    QuestionRecord(f"f{at}", f"What does the ferry to island {at} cost?", f"Crowns: {at}.")
    for at in range(6)
]
MUSEUM = [
    QuestionRecord(f"m{at}", f"Who painted museum picture {at}?", f"Painter {at} did so.")
    for at in range(4)
]
BASE = FERRY + MUSEUM

_NEW_FERRY = "<question>Do dogs travel free of charge?</question>"
_NEW_MUSEUM = "<question>Is photography allowed inside?</question>"
_NO, _YES = "It is not there. <answerable>no</answerable>", "<answerable>Yes.</answerable>"


def _writer(answerable: str = _NO, **script: str) -> ScriptedLanguageModel:
    # The checking prompt holds whole pairs too, so its own words come first.
    return ScriptedLanguageModel(
        {"<answerable>yes</answerable>": answerable, **script}, default="no form at all"
    )


def _made(lm: Any, records: list[QuestionRecord] = BASE, **given: int) -> dict[str, str]:
    return synthetic_questions(records, ToyEncoder(), lm, **{"clusters": 2, "count": 2, **given})


def test_each_cluster_gets_new_questions_checked_against_the_nearest() -> None:
    lm = _writer(**{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})

    assert _made(lm) == {
        "synthetic-0-0": "Do dogs travel free of charge?",
        "synthetic-1-0": "Is photography allowed inside?",
    }
    writing = [prompt for prompt in lm.prompts if "new questions" in prompt]
    assert len(writing) == 2
    assert "museum" not in writing[0]
    assert "Q: What does the ferry to island 0 cost?\nA: Crowns: 0." in writing[0]
    checks = [prompt for prompt in lm.prompts if "<answerable>" in prompt]
    assert [prompt.count("Q: ") for prompt in checks] == [5, 5]


def test_what_the_knowledge_base_has_or_was_written_before_is_not_taken() -> None:
    known = "<question>what does the FERRY to island 3 cost</question>"
    by_answer = "<question>Painter 2 did so?</question>"
    assert not _made(_writer(**{"ferry to island": known, "museum picture": by_answer}))

    lm = _writer(**{"ferry to island": _NEW_FERRY * 3})
    found = _made(lm, FERRY, clusters=1, count=3)
    assert list(found.values()) == ["Do dogs travel free of charge?"]
    assert "Already written:\nDo dogs travel free of charge?" in lm.prompts[-1]


@pytest.mark.parametrize(
    "verdict",
    [
        _YES,
        "<answerable>no</answerable> or rather <answerable>yes</answerable>",
        "perhaps",
        "<answerable>maybe</answerable>",
    ],
)
def test_what_is_answered_or_in_doubt_is_not_taken(verdict: str) -> None:
    lm = _writer(verdict, **{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})

    assert not _made(lm)


def test_a_model_that_fails_or_keeps_to_no_form_ends_nothing() -> None:
    assert not _made(_writer())
    assert not _made(ScriptedLanguageModel(error=LanguageModelError("down")))
    # What arrived before a failure is used.
    partly = FailingLanguageModel(
        {"<answerable>yes</answerable>": _NO, "ferry to island": _NEW_FERRY}, fails_after=3
    )
    assert list(_made(partly, FERRY, clusters=1, count=1).values()) == [
        "Do dogs travel free of charge?"
    ]


def test_a_chat_model_is_asked_with_its_own_settings() -> None:
    def reply(prompt: Any, **given: Any) -> str:
        assert "temperature" not in given
        return _NO if "<answerable>" in str(prompt) else _NEW_FERRY

    lm: Any = RunnableLambda(reply)

    assert len(_made(lm, FERRY, clusters=1, count=1)) == 1


def test_the_same_seed_shows_the_same_questions() -> None:
    many = [QuestionRecord(str(at), f"ferry {at}?", "yes") for at in range(60)]
    prompts = []
    for seed in (1, 1, 2):
        lm = _writer(ferry=_NEW_FERRY)
        _made(lm, many, clusters=1, count=1, seed=seed)
        prompts.append(lm.prompts)

    assert prompts[0] == prompts[1] != prompts[2]


def test_without_a_language_model_there_are_no_made_up_questions() -> None:
    with pytest.raises(InputError, match="making up questions needs a language model"):
        _made(None)
    with pytest.raises(InputError, match="there are no questions"):
        _made(_writer(), [])


def test_clusters_hold_each_row_once_in_order() -> None:
    corners = np.asarray([[0, 0], [9, 9], [0, 1], [9, 8], [5, -9]], dtype=np.float32)

    assert clusters_of(corners, 3, seed=0) == [[0, 2], [1, 3], [4]]
    assert clusters_of(np.ones((4, 2), dtype=np.float32), 3, seed=0) == [[0, 1, 2, 3]]
    assert clusters_of(corners[:1], 5, seed=0) == [[0]]
    assert sum(map(len, clusters_of(corners, None, seed=0))) == 5
