"""Follow-ups and small talk of a conversation, in every way to call."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda

from knowgate.adapters.langchain import Conversation, SmallTalk
from knowgate.adapters.langchain._conversation import history_text, small_talk_pattern
from knowgate.guard import Reason, Route
from knowgate.guard.prompts import Prompt
from tests.adapters.langchain.fakes import WAYS, Setting, collector
from tests.adapters.langchain.test_guarded_rag_ways import essence
from tests.support.deadlines import with_enough_time
from tests.support.tables import table

HISTORY = [HumanMessage("How much is the grounded plan?"), AIMessage("Nine euros a month.")]
FOLLOW_UP = {"question": "what about yearly?", "chat_history": HISTORY}
STANDALONE = "How much is the grounded plan a year?"


def rewriter(says: Any = STANDALONE) -> tuple[list[dict[str, Any]], Runnable[Any, Any]]:
    return collector(says)


# -- follow-ups -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_follow_up_is_rewritten_once_for_retriever_guard_and_model(
    way: Any, mode: str
) -> None:
    asked, rewrites = rewriter()
    given, with_context = collector()
    setting = Setting(mode=mode, conversation=Conversation(rewrites), with_context=with_context)

    [answer] = await way(setting.chain, (FOLLOW_UP,))

    assert asked == [{"question": "what about yearly?", "chat_history": HISTORY}]
    assert setting.asked == [STANDALONE]
    assert answer.decision.route is Route.FOLLOW_CONTEXT
    assert answer.standalone_question == STANDALONE
    [inputs] = given
    assert inputs["question"] == STANDALONE
    assert inputs["original_question"] == "what about yearly?"
    assert inputs["chat_history"] == HISTORY
    assert setting.turns() == {"follow_up": 1}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("history", [None, [], ""])
async def test_without_a_history_nothing_is_rewritten(way: Any, history: Any) -> None:
    asked, rewrites = rewriter()
    setting = Setting(conversation=Conversation(rewrites))

    [answer] = await way(setting.chain, ({"question": "grounded", "chat_history": history},))

    assert (asked, answer.standalone_question) == ([], None)
    assert answer.answer == "from context: grounded"
    assert setting.turns() == {"question": 1}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_mixed_batch_is_as_each_message_alone(way: Any) -> None:
    messages: tuple[Any, ...] = (
        "grounded 1", FOLLOW_UP, "thanks!", "who knows", {**FOLLOW_UP, "question": "Thank you."},
        "broken", "", {"question": "known one"},
    )  # fmt: skip

    def setting() -> Setting:
        conversation = Conversation(rewriter()[1], SmallTalk(reply="Any time."))
        return Setting(conversation=conversation)

    expected = [setting().chain.invoke(message) for message in messages]
    whole = setting()

    answers = await way(whole.chain, messages)

    assert [essence(answer) for answer in answers] == [essence(answer) for answer in expected]
    assert [answer.small_talk for answer in answers] == [
        False, False, True, False, True, False, False, False
    ]  # fmt: skip
    assert [answer.standalone_question for answer in answers].count(STANDALONE) == 1


def test_the_model_of_the_chain_rewrites_where_no_other_is_given() -> None:
    setting = Setting(conversation=Conversation())
    setting.context_model.speak = lambda prompt: (
        STANDALONE if prompt.startswith("Here are a conversation") else "Ninety."
    )

    answer = setting.chain.invoke(FOLLOW_UP)

    assert answer.standalone_question == STANDALONE
    assert answer.answer == "Ninety."
    prompt = setting.context_model.record.prompts[0]
    assert "AI: Nine euros a month." in prompt
    assert "Last message: what about yearly?" in prompt


@pytest.mark.parametrize(
    "history",
    [
        HISTORY,
        [("human", "How much is the grounded plan?"), ("ai", "Nine euros a month.")],
        [
            {"role": "user", "content": "How much is the grounded plan?"},
            {"role": "assistant", "content": "Nine euros a month."},
        ],
        "Human: How much is the grounded plan?\nAI: Nine euros a month.",
    ],
    ids=["messages", "pairs", "mappings", "text"],
)
def test_a_history_is_read_in_every_form(history: Any) -> None:
    text = history_text(history)

    assert text == "Human: How much is the grounded plan?\nAI: Nine euros a month."


# -- failures of the rewriter -------------------------------------------------------------


def _raises(inputs: Any) -> str:
    raise ConnectionError("gone, with the secret " + inputs["question"])


_RELEASED = threading.Event()


@pytest.fixture
def hanging() -> Iterator[None]:
    """Lets what hangs end after the test."""
    _RELEASED.clear()
    yield
    _RELEASED.set()


def _hangs(inputs: Any) -> str:
    _RELEASED.wait(60)
    return STANDALONE


FAILURES: dict[str, Callable[[Any], str]] = {
    "raises": _raises,
    "hangs": _hangs,
    "returns nothing": lambda inputs: "  \n",
}


@pytest.mark.parametrize("fails", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_rewriter_that_fails_leads_to_an_abstention(
    way: Any, fails: Any, caplog: pytest.LogCaptureFixture, hanging: None
) -> None:
    setting = Setting(conversation=Conversation(RunnableLambda(fails), timeout=0.05))
    started = time.monotonic()

    with caplog.at_level(logging.WARNING):
        [answer] = await way(setting.chain, (FOLLOW_UP,))

    assert time.monotonic() - started < 30
    assert (answer.abstained, answer.decision.reason) == (True, Reason.REWRITING_FAILED)
    assert "conversation" in answer.answer
    assert setting.asked == []
    assert setting.turns() == {"rewriting_failed": 1}
    assert setting.counted("rewriting_failed") == 1
    assert "the rewriter failed" in caplog.text
    assert "yearly" not in caplog.text


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_failed_rewriting_can_leave_the_message_to_the_guard(way: Any) -> None:
    conversation = Conversation(RunnableLambda(_raises), on_error="as_it_is")
    setting = Setting(conversation=conversation)

    [answer] = await way(setting.chain, (FOLLOW_UP,))

    assert setting.asked == ["what about yearly?"]
    assert answer.decision.reason is Reason.NEITHER_KNOWS
    assert setting.turns() == {"rewriting_failed": 1}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_failed_rewriting_can_be_raised(way: Any) -> None:
    chain = Setting(conversation=Conversation(RunnableLambda(_raises), on_error="raise")).chain

    with pytest.raises(ConnectionError):
        await way(chain, (FOLLOW_UP,))


def test_in_shadow_mode_a_failed_rewriting_changes_nothing() -> None:
    setting = Setting(mode="shadow", conversation=Conversation(RunnableLambda(_raises)))

    answer = setting.chain.invoke({**FOLLOW_UP, "question": "grounded, yearly?"})

    assert answer.answer == "from context: yearly?"
    assert answer.decision.reason is Reason.REWRITING_FAILED
    assert setting.asked == ["grounded, yearly?"]


def test_one_rewriter_that_hangs_does_not_fail_the_others_of_a_batch(hanging: None) -> None:
    def hangs_for_one(inputs: Any) -> str:
        return _hangs(inputs) if "monthly" in inputs["question"] else STANDALONE

    def check(seconds: float) -> None:
        conversation = Conversation(RunnableLambda(hangs_for_one), timeout=seconds)
        chain = Setting(conversation=conversation).chain

        answers = chain.batch([FOLLOW_UP, {**FOLLOW_UP, "question": "and monthly?"}, FOLLOW_UP])

        assert [answer.abstained for answer in answers] == [False, True, False]

    with_enough_time(check)


# -- small talk -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_small_talk_gets_the_fixed_reply(way: Any) -> None:
    setting = Setting(conversation=Conversation(small_talk=SmallTalk(reply="Any time!")))

    [answer] = await way(setting.chain, ("Thanks a lot!!",))

    assert (answer.answer, answer.small_talk, answer.abstained) == ("Any time!", True, False)
    assert answer.decision.reason is Reason.SMALL_TALK
    assert answer.documents == ()
    assert (setting.asked, setting.scorer.calls) == ([], 0)
    assert (setting.turns(), setting.decisions()) == ({"small_talk": 1}, 0)
    assert setting.context_model.record.prompts == []


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_small_talk_bypasses_the_guard_to_the_model_without_context(way: Any) -> None:
    checked: list[str] = []

    def check(question: str, reply: str) -> bool:
        checked.append(reply)
        return False

    setting = Setting(conversation=Conversation(small_talk=SmallTalk()), check_reply=check)
    setting.context_model.speak = lambda prompt: "Hello to you!"

    [answer] = await way(setting.chain, ("hello",))

    assert (answer.answer, answer.small_talk, answer.documents) == ("Hello to you!", True, ())
    assert isinstance(answer.output, AIMessage)
    [prompt] = setting.context_model.record.prompts
    assert prompt == Prompt.bundled("small_talk").fill(question="hello")
    assert (setting.asked, setting.decisions(), checked) == ([], 0, [])


def test_messages_of_small_talk() -> None:
    for text in table(__file__, "messages of small talk"):
        assert small_talk_pattern(Prompt.bundled("small_talk_patterns").text).fullmatch(text)


def test_messages_that_ask_something() -> None:
    for text in table(__file__, "messages that ask something"):
        assert not small_talk_pattern(Prompt.bundled("small_talk_patterns").text).fullmatch(text)


def test_a_long_message_is_no_small_talk_and_is_told_fast() -> None:
    chain = Setting(conversation=Conversation(small_talk=SmallTalk(reply="Hi!"))).chain
    started = time.process_time()

    assert not chain.invoke("thanks " * 5000).small_talk
    pattern = small_talk_pattern(Prompt.bundled("small_talk_patterns").text)
    assert not pattern.fullmatch("thanks! " * 12 + "x")
    assert time.process_time() - started < 2
