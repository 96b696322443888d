"""KnowOrNot's documents: read with tolerance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats.knowornot import (
    InputDocument,
    QuestionEntry,
    context_in_prompt,
    read_document,
)

_NAMES = (
    "metadata",
    "experiment_metadata",
    "evaluation_metadata",
    "responses",
    "questions",
    "source_context_qa",
    "prompt_to_llm",
    "identifier",
    "question",
    "answer",
    "llm_response",
    "experiment_input",
    "response",
    "citation",
    "evaluations",
    "additional_tags_info",
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_a_context_is_found_in_a_published_prompt(shared_data: Path) -> None:
    document = read_document(shared_data / "policybench" / "knowornot_artifacts" / "input.json")
    assert isinstance(document, InputDocument)

    for asked_ in document.questions:
        found = context_in_prompt(asked_.prompt_to_llm)
        assert found is not None
        assert [(one.question, one.answer) for one in found] == [
            (one.question, one.answer) for one in asked_.source_context_qa.context_questions or ()
        ]


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=4))
def test_a_context_is_found_in_its_prompt(pairs: list[tuple[str, str]]) -> None:
    entries = [QuestionEntry(question=question, answer=answer) for question, answer in pairs]
    context = "".join(
        f"Question {number}: {entry.question}\nAnswer {number}: {entry.answer}\n"
        for number, entry in enumerate(entries)
    )

    found = context_in_prompt(f"Be careful.Why?\nThe context is {context}")

    assert list(found or ()) == entries
    assert context_in_prompt("Be careful.\nWhy?") is None


@settings(max_examples=20, deadline=None)
@given(_JSON)
def test_any_json_is_a_document_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    try:
        document = read_document(path)
    except InputError:
        return
    json.dumps(document.model_dump(mode="json"), ensure_ascii=False).encode()
