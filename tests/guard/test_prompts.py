"""Prompts are files with slots; what fills them is never read as a slot."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.prompts import Prompt


@pytest.mark.parametrize(
    "value", ["{question}", "{context}", "{", "}", "{0}", "{{x}}", "%s", "\\1", "\\g<0>", "$x"]
)
def test_braces_and_backslashes_in_a_value_stay_as_they_are(value: str) -> None:
    prompt = Prompt("mine", "{context}|{question}")
    assert prompt.fill(context=value, question=value) == f"{value}|{value}"


def test_braces_in_the_template_that_are_no_slot_stay() -> None:
    prompt = Prompt("mine", '{"a": {}} {question}')
    assert prompt.slots == {"question"}
    assert prompt.fill(question="q") == '{"a": {}} q'


def test_a_slot_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match="without a value: context"):
        Prompt("mine", "{context} {question}").fill(question="q")


@pytest.mark.parametrize(
    ("name", "slots"), [("closed_book", {"question"}), ("with_context", {"context", "question"})]
)
def test_the_bundled_prompts_have_the_slots_that_the_signals_fill(
    name: str, slots: set[str]
) -> None:
    prompt = Prompt.bundled(name)
    assert (prompt.name, set(prompt.slots)) == (name, slots)
    assert prompt.sha256 == hashlib.sha256(prompt.text.encode()).hexdigest()


def test_a_prompt_of_ones_own_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbfQ: {question}\n\n")
    assert Prompt.load(path) == Prompt("mine", "Q: {question}")
