"""How models are asked, and how their replies are taken apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.systems.plan import PROMPTS, load_system_prompt, split_citation


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
