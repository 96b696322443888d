"""Guards and chains are copied, bound and configured as LangChain does with runnables."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedRAG, GuardedRetriever
from knowgate.guard import Guard, InputError, Policy
from knowgate.guard.testing import FakeScorer

PAGES = ["We open at nine.", "We close at six."]
QUESTION = "When do you open?"


class _Pages(BaseRetriever):
    """The first pages."""

    k: int = 1

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(text) for text in PAGES[: self.k]]


def guard_of() -> Guard:
    scorer = FakeScorer({"nine": 0.9, "six": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    return Guard(policy, scorer=scorer, metrics=False)


def chain_of(retriever: Any) -> GuardedRAG:
    quote = RunnableLambda(lambda given: given["context"])
    return GuardedRAG(guard=guard_of(), retriever=retriever, with_context=quote)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_decide_as_what_they_were_copied_from(copied: Callable[[Any], Any]) -> None:
    chain = chain_of(_Pages())
    filtered = GuardedRetriever(guard=guard_of(), retriever=_Pages())

    assert copied(chain).invoke(QUESTION).answer == PAGES[0]
    assert copied(chain.with_config(tags=["one"])).invoke(QUESTION).answer == PAGES[0]
    assert [one.page_content for one in copied(filtered).invoke(QUESTION)] == PAGES[:1]
    guard = guard_of()
    assert copied(guard) is guard


def test_a_guard_that_is_pickled_says_what_to_do() -> None:
    for one in (guard_of(), chain_of(_Pages())):
        with pytest.raises(InputError, match=r"cannot be pickled — .* Guard\.load\(path\)"):
            pickle.dumps(one)
