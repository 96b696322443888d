"""Made-up questions: on topic, new, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.systems._synthetic import (
    SyntheticQuestions,
    SyntheticSettings,
    clusters_of,
    shares,
    synthetic_questions,
)
from tests.offline_eval.suites.ookb.toy import ToyEncoder

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
        {"<answerable>yes</answerable>": answerable, **script},
        default="no form at all",
    )


def _made(lm: Any, **settings: Any) -> SyntheticQuestions:
    return synthetic_questions(
        BASE, ToyEncoder(), lm, SyntheticSettings(**{"clusters": 2, "count": 2, **settings})
    )


def test_each_cluster_gets_new_questions_on_its_topic() -> None:
    lm = _writer(**{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})

    made = _made(lm)

    assert [(one.question_id, one.question) for one in made.questions] == [
        ("synthetic-0-0", "Do dogs travel free of charge?"),
        ("synthetic-1-0", "Is photography allowed inside?"),
    ]
    assert made.rejected == ()
    assert made.failures == ()
    assert (made.calls, made.input_tokens, made.output_tokens) == (4, None, None)
    writing = [prompt for prompt in lm.prompts if "new questions" in prompt]
    assert len(writing) == 2
    assert "museum" not in writing[0]
    assert "Q: What does the ferry to island 0 cost?\nA: Crowns: 0." in writing[0]


def test_a_question_that_the_knowledge_base_has_is_not_taken() -> None:
    known = "<question>what does the FERRY to island 3 cost</question>"
    by_answer = "<question>Painter 2 did so?</question>"
    lm = _writer(**{"ferry to island": known, "museum picture": by_answer})

    made = _made(lm, rounds=1)

    assert made.questions == ()
    assert [(one.reason.value, one.nearest) for one in made.rejected] == [
        ("known", "f3"),
        ("known", "m2"),
    ]
    assert all(one.similarity >= 0.8 for one in made.rejected)


def test_a_question_that_was_written_before_is_not_taken_again() -> None:
    lm = _writer(**{"ferry to island": _NEW_FERRY * 3})

    made = synthetic_questions(
        FERRY, ToyEncoder(), lm, SyntheticSettings(clusters=1, count=3, rounds=2)
    )

    assert [one.question for one in made.questions] == ["Do dogs travel free of charge?"]
    assert {one.reason.value for one in made.rejected} == {"repeated"}
    assert "Already written:\nDo dogs travel free of charge?" in lm.prompts[-1]


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (_YES, "answerable"),
        ("<answerable>no</answerable> or rather <answerable>yes</answerable>", "answerable"),
        ("perhaps", "unchecked"),
        ("<answerable>maybe</answerable>", "unchecked"),
    ],
)
def test_what_is_answered_or_in_doubt_is_not_taken(verdict: str, reason: str) -> None:
    lm = _writer(verdict, **{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})

    made = _made(lm, rounds=1)

    assert made.questions == ()
    assert {one.reason.value for one in made.rejected} == {reason}


def test_the_check_shows_the_nearest_pairs_and_can_be_left_out() -> None:
    lm = _writer(**{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})

    _made(lm)
    checks = [prompt for prompt in lm.prompts if "<answerable>" in prompt]
    assert all(prompt.count("Q: ") == 5 for prompt in checks)

    without = _writer(_YES, **{"ferry to island": _NEW_FERRY, "museum picture": _NEW_MUSEUM})
    assert len(_made(without, check=False).questions) == 2


def test_a_model_that_keeps_to_no_form_fails_prompt_by_prompt() -> None:
    made = _made(_writer(), rounds=2)

    assert made.questions == ()
    assert made.failures == ("no question in the reply",) * 4


def test_a_model_that_fails_ends_nothing() -> None:
    made = _made(ScriptedLanguageModel(error=LanguageModelError("down")), rounds=2)

    assert made.questions == ()
    assert made.failures == ("LanguageModelError",) * 4


def test_what_arrived_before_a_failure_is_used() -> None:
    lm = ScriptedLanguageModel({"ferry to island": _NEW_FERRY}, fails_after=1)

    made = _made(lm, check=False, rounds=1)

    assert [one.question for one in made.questions] == ["Do dogs travel free of charge?"]
    assert len(made.failures) == 1


class _Chat(BaseChatModel):
    """Writes for a writing prompt, clears for a checking one; says how many tokens."""

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        assert "temperature" not in kwargs
        text = _NO if "<answerable>" in str(messages[0].content) else _NEW_FERRY
        usage: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
        message = AIMessage(text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_a_chat_model_is_asked_as_it_is_and_metered() -> None:
    made = synthetic_questions(FERRY, ToyEncoder(), _Chat(), SyntheticSettings(clusters=1, count=1))

    assert [one.question for one in made.questions] == ["Do dogs travel free of charge?"]
    assert (made.calls, made.input_tokens, made.output_tokens) == (2, 200, 14)


def test_a_runnable_without_meter_has_no_token_counts() -> None:
    lm: Any = RunnableLambda(lambda _: _NEW_FERRY)

    made = synthetic_questions(
        FERRY, ToyEncoder(), lm, SyntheticSettings(clusters=1, count=1, check=False)
    )

    assert (made.calls, made.input_tokens) == (1, None)


def test_the_same_seed_shows_the_same_questions() -> None:
    many = [QuestionRecord(str(at), f"ferry {at}?", "yes") for at in range(60)]
    prompts = []
    for seed in (1, 1, 2):
        lm = _writer(ferry=_NEW_FERRY)
        synthetic_questions(
            many, ToyEncoder(), lm, SyntheticSettings(clusters=1, count=1, check=False, seed=seed)
        )
        prompts.append(lm.prompts)

    assert prompts[0] == prompts[1] != prompts[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "count: must be at least 1"),
        ({"rounds": 0}, "rounds: must be at least 1"),
        ({"clusters": 0}, "clusters: must be at least 1"),
        ({"novelty": 0.0}, "novelty: must be above 0"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _made(_writer(), **settings)


def test_without_a_language_model_there_are_no_made_up_questions() -> None:
    with pytest.raises(InputError, match="making up questions needs a language model"):
        _made(None)
    with pytest.raises(InputError, match="there are no questions"):
        synthetic_questions([], ToyEncoder(), _writer())


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 100))
def test_shares_add_up_and_follow_the_sizes(sizes: list[int], total: int) -> None:
    dealt = shares(sizes, total)

    assert sum(dealt) == total
    for size, share in zip(sizes, dealt, strict=True):
        assert abs(share - total * size / sum(sizes)) < 1


def test_clusters_hold_each_row_once_in_order() -> None:
    corners = np.asarray([[0, 0], [9, 9], [0, 1], [9, 8], [5, -9]], dtype=np.float32)

    assert clusters_of(corners, 3, seed=0) == [[0, 2], [1, 3], [4]]
    assert clusters_of(np.ones((4, 2), dtype=np.float32), 3, seed=0) == [[0, 1, 2, 3]]
    assert clusters_of(corners[:1], 5, seed=0) == [[0]]
    assert sum(map(len, clusters_of(corners, None, seed=0))) == 5
