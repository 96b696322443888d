"""What was judged is what is shown, and what was measured is what is said."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import AbstainedError, Conversation, Replies
from knowgate.guard import Reason, Route
from knowgate.guard.contracts import View
from tests.adapters.langchain.fakes import WAYS, Setting
from tools.attack.judged_texts import Changing

ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


class Shown:
    """Records what the prompt is made of."""

    def __init__(self) -> None:
        self.contexts: list[str] = []
        self.texts: list[list[str]] = []
        self.runnable = RunnableLambda(self._say)

    def _say(self, given: dict[str, Any]) -> str:
        self.contexts.append(given["context"])
        self.texts.append([document.page_content for document in given["documents"]])
        return "said"


@ways
async def test_a_document_that_changes_between_reads_is_shown_as_it_was_judged(way: Any) -> None:
    shown = Shown()
    changing = Changing(page_content="", first="grounded", metadata={"source": "a.html"})
    setting = Setting(retriever=lambda question: [changing], with_context=shown.runnable)

    [answer] = await way(setting.chain, ("when?",))

    assert answer.decision.route is Route.FOLLOW_CONTEXT
    assert shown.contexts == ["grounded"]
    assert shown.texts == [["grounded"]]
    assert [one.page_content for one in answer.documents] == ["grounded"]
    assert answer.documents[0].metadata == {"source": "a.html"}


class Mutating:
    """A retriever that changes what it returned, as soon as it has been judged."""

    def __init__(self, setting: dict[str, Any]) -> None:
        self._kept = [
            Document("grounded one", metadata={"title": "First"}),
            Document("grounded two", metadata={"title": "Second"}),
            Document("off topic", metadata={"title": "Third"}),
        ]
        self.setting = Setting(retriever=lambda question: self._kept, **setting)
        score = self.setting.scorer.score_pairs

        def score_and_change(pairs: Sequence[tuple[str, str]]) -> Any:
            scores = score(pairs)
            for document in self._kept:
                document.page_content = "injected afterwards"
                document.metadata["title"] = "Injected"
            self._kept.reverse()
            return scores

        self.setting.scorer.score_pairs = score_and_change  # type: ignore[method-assign]


@ways
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({}, ["grounded one", "grounded two", "off topic"]),
        ({"kept_margin": 0.1}, ["grounded one", "grounded two"]),
        ({"conversation": True}, ["grounded one", "grounded two", "off topic"]),
    ],
    ids=["all", "kept_margin", "conversation"],
)
async def test_a_retriever_that_changes_its_documents_changes_no_prompt(
    way: Any, setting: dict[str, Any], expected: list[str]
) -> None:
    shown = Shown()
    question: Any = "when?"
    changes: dict[str, Any] = {**setting, "with_context": shown.runnable}
    if changes.pop("conversation", None):
        changes["conversation"] = Conversation(RunnableLambda(lambda given: "And when?"))
        question = {"question": "and then?", "chat_history": [("human", "hello")]}

    [answer] = await way(Mutating(changes).setting.chain, (question,))

    assert shown.contexts == ["\n\n".join(expected)]
    assert shown.texts == [expected]
    assert [one.page_content for one in answer.documents] == expected


@ways
async def test_the_sources_of_all_views_are_those_that_were_judged(way: Any) -> None:
    views = {"when?": (View("nine", (0,)), View("ten", (1,)))}

    [answer] = await way(Mutating({"views": views}).setting.chain, ("when?",))

    assert answer.decision.reason is Reason.CONFLICT_SHOWS_BOTH
    assert "First" in answer.answer
    assert "Second" in answer.answer
    assert "Injected" not in answer.answer


def test_texts_and_mappings_stay_what_they_are_and_other_objects_become_documents() -> None:
    class Custom:
        content = "grounded d"
        metadata = {"source": "d.html"}  # noqa: RUF012 - a fake

    class Sub(Document):
        score: float = 0.5

    found = ["grounded a", {"text": "grounded b", "n": 1}, Sub(page_content="c"), Custom()]
    setting = Setting(retriever=lambda question: found, with_context=RunnableLambda(str))

    documents = setting.chain.invoke("when?").documents

    assert documents[:2] == ("grounded a", {"text": "grounded b", "n": 1})
    assert isinstance(documents[2], Sub)
    assert documents[3] == Document("grounded d", metadata={"source": "d.html"})


@pytest.mark.parametrize("asynchronous", ["ainvoke", "abatch"])
async def test_documents_that_are_computed_are_read_beside_the_event_loop(
    asynchronous: str,
) -> None:
    threads: list[int] = []

    class Lazy:
        @property
        def page_content(self) -> str:
            threads.append(threading.get_ident())
            return "grounded"

    chain = Setting(retriever=lambda question: [Lazy()]).chain
    if asynchronous == "ainvoke":
        await chain.ainvoke("when?")
    else:
        await chain.abatch(["when?", "why?"])

    assert threads
    assert threading.get_ident() not in threads


# -- the estimator's own answer -------------------------------------------------------


@ways
async def test_the_estimators_own_answer_is_said_without_another_call(way: Any) -> None:
    setting = Setting(closed_book="estimator", drawn="Ada Lovelace")

    [answer] = await way(setting.chain, ("known one",))

    assert answer.answer == answer.output == answer.decision.closed_book_answer == "Ada Lovelace"
    assert (answer.decision.route, answer.reply_abstained) == (Route.ANSWER, None)
    assert setting.estimator.calls == 1
    assert setting.closed_model.record.prompts == setting.context_model.record.prompts == []


@ways
@pytest.mark.parametrize("drawn", ["", " \n"])
async def test_an_estimator_without_an_answer_is_an_abstention_of_the_model(
    way: Any, drawn: str
) -> None:
    setting = Setting(closed_book="estimator", drawn=drawn)

    [answer] = await way(setting.chain, ("known one",))

    assert answer.answer == Replies().to(Reason.REPLY_ABSTAINED)
    assert (answer.reply_abstained, answer.output) == (True, None)
    assert setting.closed_model.record.prompts == []
    raising = Setting(closed_book="estimator", drawn=drawn, raise_on_abstain=True)
    with pytest.raises(AbstainedError, match="reply_abstained"):
        await way(raising.chain, ("known one",))


def test_the_estimators_answer_takes_no_part_in_other_routes_and_in_shadow_mode() -> None:
    setting = Setting(closed_book="estimator")
    shadow = Setting(closed_book="estimator", mode="shadow")

    assert setting.chain.invoke("grounded").answer.startswith("from context")
    assert setting.chain.invoke("who knows").decision.reason is Reason.NEITHER_KNOWS
    assert shadow.chain.invoke("known one").answer.startswith("from context")
