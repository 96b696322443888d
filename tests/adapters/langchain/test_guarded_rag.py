"""The three routes, what each prompt contains, shadow mode and replies."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda

from knowgate.adapters.langchain import AbstainedError, GuardedAnswer, GuardedRAG, Replies
from knowgate.guard import InputError, QuestionError, Reason, Route
from tests.adapters.langchain.fakes import DOCUMENTS, Setting, collector


def test_a_relevant_context_is_followed_with_the_kept_passages_only() -> None:
    setting = Setting()

    answer = setting.chain.invoke("a grounded one")

    assert answer.decision.route is Route.FOLLOW_CONTEXT
    assert answer.answer == "from context: one"
    assert answer.documents == (DOCUMENTS[0], DOCUMENTS[2])
    assert not answer.abstained
    [prompt] = setting.context_model.record.prompts
    assert f"{DOCUMENTS[0].page_content}\n\n{DOCUMENTS[2].page_content} QUESTION" in prompt


def test_a_parametric_answer_is_generated_without_any_context() -> None:
    setting = Setting()

    answer = setting.chain.invoke({"question": "known one", "context": "planted", "style": "dry"})

    assert answer.decision.route is Route.ANSWER
    assert answer.answer == "from memory: one"
    assert answer.documents == ()
    assert setting.closed_model.record.prompts == ["CLOSED known one"]
    assert setting.context_model.record.prompts == []


def test_the_closed_book_runnable_gets_question_and_extra_keys_and_nothing_else() -> None:
    given, closed_book = collector()
    setting = Setting()
    chain = GuardedRAG(
        guard=setting.guard,
        retriever=lambda question: [Document("Off topic.")],
        with_context=lambda inputs: "unused",
        closed_book=closed_book,
    )

    chain.invoke({"question": "known one", "style": "dry", "documents": ["x"], "context": "y"})

    assert given == [{"question": "known one", "style": "dry"}]


def test_the_context_runnable_gets_kept_documents_and_extra_keys() -> None:
    given, with_context = collector()
    setting = Setting(with_context=with_context)

    setting.chain.invoke({"question": "grounded", "style": "dry", "context": "planted"})

    [inputs] = given
    assert sorted(inputs) == ["context", "documents", "question", "style"]
    assert inputs["documents"] == [DOCUMENTS[0], DOCUMENTS[2]]
    assert "planted" not in inputs["context"]


def test_an_abstention_generates_nothing_and_replies_in_plain_words() -> None:
    setting = Setting()

    answer = setting.chain.invoke("who knows")

    assert answer.abstained
    assert answer.decision.reason is Reason.NEITHER_KNOWS
    assert answer.answer == Replies().to(Reason.NEITHER_KNOWS)
    assert str(answer) == answer.answer
    assert (answer.documents, answer.output) == ((), None)
    assert setting.context_model.record.prompts == setting.closed_model.record.prompts == []


def test_shadow_mode_counts_and_changes_nothing() -> None:
    setting = Setting(mode="shadow")

    answer = setting.chain.invoke("is grounded not asked")
    off_topic = setting.chain.invoke("who knows")

    assert answer.documents == DOCUMENTS
    assert off_topic.decision.route is Route.ABSTAIN
    assert not off_topic.abstained
    assert off_topic.answer == "from context: knows"
    assert off_topic.documents == (Document("Off topic.", metadata={"id": "c"}),)
    assert setting.counted("neither_knows") == 1


def test_shadow_mode_gives_the_blank_passages_and_the_question_untouched() -> None:
    given, with_context = collector()
    setting = Setting(mode="shadow", with_context=with_context, raise_on_abstain=True)

    setting.chain.invoke("grounded\x00")
    setting.chain.invoke("who knows")

    assert given[0]["question"] == "grounded\x00"
    assert given[0]["documents"] == list(DOCUMENTS)
    assert len(given) == 2


@pytest.mark.parametrize("question", ["", "   ", None, 7])
def test_an_unreadable_question_is_abstained_from_without_retrieval(question: Any) -> None:
    setting = Setting()

    answer = setting.chain.invoke(question)
    inside = setting.chain.invoke({"question": question})

    assert answer.decision.reason is inside.decision.reason is Reason.INVALID_INPUT
    assert setting.asked == []


def test_an_unreadable_question_is_raised_where_the_guard_was_told_to_raise() -> None:
    with pytest.raises(QuestionError):
        Setting(on_error="raise").chain.invoke("")


def test_lone_surrogates_reach_neither_retriever_nor_prompt() -> None:
    setting = Setting()

    setting.chain.invoke("grounded \ud800")

    assert setting.asked == ["grounded \ufffd"]
    assert setting.context_model.record.prompts[0].endswith("\ufffd")


def test_every_abstention_has_a_bundled_reply_of_its_own() -> None:
    ends_well = {
        Reason.SUFFICIENT_CONTEXT,
        Reason.CONFLICT_FOLLOWS_CONTEXT,
        Reason.CONFLICT_SHOWS_BOTH,
        Reason.CONFIDENT_MEMORY,
        Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT,
        Reason.SHADOW_FAILED,
    }
    replies = [Replies().to(reason) for reason in Reason if reason not in ends_well]

    assert len(set(replies)) == len(replies)
    assert all(reply.endswith(".") for reply in replies)


def test_a_missing_closed_book_runnable_is_refused_where_the_policy_answers() -> None:
    with pytest.raises(InputError, match="closed_book"):
        GuardedRAG(guard=Setting().guard, retriever=lambda q: [], with_context=lambda i: "")


def test_abstaining_can_be_raised_so_that_fallbacks_take_over() -> None:
    chain = Setting(raise_on_abstain=True).chain

    with pytest.raises(AbstainedError) as caught:
        chain.invoke("who knows")
    person: Runnable[Any, Any] = RunnableLambda(lambda question: "a person will answer")
    rescued: Runnable[Any, Any] = chain.with_fallbacks(
        [person], exceptions_to_handle=(AbstainedError,)
    )

    assert caught.value.decision.reason is Reason.NEITHER_KNOWS
    assert "who knows" not in str(caught.value)
    assert rescued.invoke("who knows") == "a person will answer"
    assert isinstance(rescued.invoke("grounded"), GuardedAnswer)
