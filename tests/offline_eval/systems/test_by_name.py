"""Models and judges by name; how models are asked and their replies taken apart."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from numpy.typing import NDArray

from knowgate.guard import LanguageModel
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.questions import KnowledgeBase
from knowgate.offline_eval.systems.factory import load_chat_model, load_language_model, load_object
from knowgate.offline_eval.systems.plan import PROMPTS, load_system_prompt, split_citation
from knowgate.offline_eval.systems.retrieval import PassageIndex, top_k

MODULE = """
from langchain_core.language_models import FakeListChatModel
from knowgate.guard.prompts import Prompt
from knowgate.guard.testing import ScriptedLanguageModel

ready = FakeListChatModel(responses=["ready"])
lm = ScriptedLanguageModel(default="from the script")
number = 7

def made():
    return FakeListChatModel(responses=["made"])

def broken():
    raise RuntimeError("no")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "users_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "users_models", raising=False)
    return "python:users_models"


def test_the_embedded_model_answers(module: str) -> None:
    model = load_chat_model("embedded")
    assert isinstance(model, BaseChatModel)
    assert model.invoke([HumanMessage("Q: Who?\nA:")]).content


@pytest.mark.parametrize("name", ["ready", "made"])
def test_an_object_or_what_makes_one_is_taken_from_a_module(module: str, name: str) -> None:
    assert load_chat_model(f"{module}:{name}").invoke("hello").content == name


def test_a_chat_model_serves_as_language_model(module: str) -> None:
    lm = load_language_model(f"{module}:made")
    assert isinstance(lm, LanguageModel)
    assert lm.generate(["hello"])[0][0].text == "made"


def test_a_language_model_is_taken_as_it_is(module: str) -> None:
    assert isinstance(load_language_model(f"{module}:lm"), ScriptedLanguageModel)


def test_an_object_is_found_by_its_dotted_attribute() -> None:
    assert load_object("python:os:path.sep") == "/"


@pytest.mark.parametrize("name", PROMPTS)
def test_bundled_prompts_number_passages_and_ask_for_a_citation(name: str) -> None:
    prompt = load_system_prompt(name)

    filled = prompt.filled("Why {context}?", ["One.", "Two {question}."])

    assert "[1] One.\n\n[2] Two {question}." in filled
    assert "Question: Why {context}?\n" in filled
    assert '"Citation: "' in filled


@pytest.mark.parametrize("name", PROMPTS)
def test_without_passages_nothing_of_a_context_is_spoken_of(name: str) -> None:
    filled = load_system_prompt(name).filled("Why?", [])

    assert "passage" not in filled
    assert "{" not in filled


def test_a_prompt_of_the_users_own_loses_its_paragraph_of_context(tmp_path: Path) -> None:
    file = tmp_path / "terse.txt"
    file.write_text("Be terse.\n\nRead this:\n{context}\n\nQ: {question}\nA:\n", encoding="utf-8")

    prompt = load_system_prompt(str(file))

    assert prompt.name == "terse"
    assert prompt.filled("Why?", []) == "Be terse.\n\nQ: Why?\nA:"
    assert prompt.filled("Why?", ["So."]) == "Be terse.\n\nRead this:\n[1] So.\n\nQ: Why?\nA:"


def test_a_closed_book_file_beside_the_prompt_is_used(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{context} {question}", encoding="utf-8")
    (tmp_path / "mine.closed_book.txt").write_text("Just say: {question}", encoding="utf-8")

    assert load_system_prompt(str(tmp_path / "mine.txt")).filled("Why?", []) == "Just say: Why?"


@pytest.mark.parametrize(
    ("text", "reply", "citation"),
    [
        ("At nine.\nCitation: 2", "At nine.", "2"),
        ("At nine.\n\n**Citation:** [3]\n", "At nine.", "[3]"),
        ("At nine.\nCITATIONS: none", "At nine.", "none"),
        ("At nine. <citation>4</citation>", "At nine.", "4"),
        ("<citation>1</citation> At nine.\n<citation>2</citation>",
         "<citation>1</citation> At nine.", "2"),
        ("At nine.\nCitation:", "At nine.", ""),
        ("Citation: 2", "Citation: 2", None),
        ("The citation: see there. At nine.", "The citation: see there. At nine.", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_citations_are_told_from_replies(text: str, reply: str, citation: str | None) -> None:
    assert split_citation(text) == (reply, citation)


@given(st.text(alphabet=st.sampled_from("ab \n:[]*<>/Citaton1")))
def test_nothing_but_the_citation_is_lost(text: str) -> None:
    reply, citation = split_citation(text)

    if citation is None:
        assert reply == text
    else:
        assert citation in text
        assert reply.strip()


Floats32 = NDArray[np.float32]


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(-2, 2)),
    arrays(np.float32, st.tuples(st.integers(0, 5), st.just(3)), elements=st.integers(-2, 2)),
    st.integers(1, 8),
)
def test_the_largest_products_come_first_and_equal_ones_in_order(
    matrix: Floats32, queries: Floats32, k: int
) -> None:
    rows, products = top_k(queries, matrix, k)

    assert rows.shape == products.shape == (len(queries), min(k, len(matrix)))
    for query, found, values in zip(queries, rows.tolist(), products.tolist(), strict=True):
        every = (matrix @ query).tolist()
        assert found == sorted(range(len(matrix)), key=lambda row: (-every[row], row))[:k]
        assert values == [every[row] for row in found]


class _Vectors:
    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray([self._vectors[text] for text in texts], dtype=np.float32)


def test_ties_keep_the_order_of_the_passages() -> None:
    index = PassageIndex(
        KnowledgeBase(dict.fromkeys("dbca", "same"), {}), _Vectors({"same": [1.0]})
    )
    query = np.ones(1, dtype=np.float32)

    assert index.nearest(query, 3) == ["d", "b", "c"]
    assert index.nearest(query, 3, without={"b"}) == ["d", "c", "a"]
    assert index.nearest(query, 9, without={"d"}) == ["b", "c", "a"]


def test_the_index_ranks_by_cosine() -> None:
    vectors = {"near": [0.8, 0.6], "far": [-1.0, 0.0], "right": [1.0, 0.0]}
    base = KnowledgeBase({name: name for name in ("far", "near", "right")}, {})

    found = PassageIndex(base, _Vectors(vectors)).nearest(np.asarray([1.0, 0.0], np.float32), 3)

    assert found == ["right", "near", "far"]
