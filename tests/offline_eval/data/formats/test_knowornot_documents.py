"""KnowOrNot's documents: read with tolerance, written strictly."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats._knowornot_documents import (
    context_in_prompt,
    prompt_text,
    read_document,
    write_document,
)
from knowgate.offline_eval.data.formats._knowornot_schemas import (
    EvaluatedDocument,
    InputDocument,
    OutputDocument,
    QuestionDocument,
    QuestionEntry,
)
from tests.offline_eval.data.formats.knowornot_experiments import (
    QUESTIONS,
    asked,
    metadata,
    replied,
    store,
)

_KINDS = {
    "evaluated": EvaluatedDocument,
    "input": InputDocument,
    "output": OutputDocument,
}
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


@pytest.mark.parametrize("name", sorted(_KINDS))
def test_published_artefacts_are_read_and_written_as_they_were(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    path = shared_data / "policybench" / "knowornot_artifacts" / f"{name}.json"

    document = read_document(path)
    write_document(tmp_path / "again.json", document)

    assert type(document) is _KINDS[name]
    again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))
    assert again == json.loads(path.read_text(encoding="utf-8"))


def test_prompts_are_built_and_understood_as_published(shared_data: Path) -> None:
    path = shared_data / "policybench" / "knowornot_artifacts" / "input.json"
    document = read_document(path)
    assert isinstance(document, InputDocument)

    system_prompt = document.metadata.system_prompt.content
    for asked_ in document.questions:
        question, context = asked_.source_context_qa, asked_.source_context_qa.context_questions
        assert prompt_text(system_prompt, question.question, context) == asked_.prompt_to_llm
        found = context_in_prompt(asked_.prompt_to_llm)
        assert found is not None
        assert [(one.question, one.answer) for one in found] == [
            (one.question, one.answer) for one in context or ()
        ]


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=4))
def test_a_context_is_found_in_its_prompt(pairs: list[tuple[str, str]]) -> None:
    context = [QuestionEntry(question=q, answer=a) for q, a in pairs]

    found = context_in_prompt(prompt_text("Be careful.", "Why?", context))

    assert list(found or ()) == context


def test_a_prompt_without_context_has_none() -> None:
    assert prompt_text("Be careful.", "Why?", None) == "Be careful.\nWhy?"
    assert context_in_prompt("Be careful.\nWhy?") is None


def test_optional_fields_may_be_missing(tmp_path: Path) -> None:
    bare = {
        "experiment_metadata": {"system_prompt": "Use the context.", "client_enum": None},
        "responses": [
            {
                "llm_response": {
                    "experiment_input": {"source_context_qa": {"identifier": 3, "question": "Q"}},
                    "llm_response": {"response": "R"},
                },
                "evaluations": [
                    {"evaluation_name": "abstention", "additional_tags_info": {"why": "so"}}
                ],
            }
        ],
    }

    document = read_document(store(tmp_path / "bare.json", bare))

    assert isinstance(document, EvaluatedDocument)
    (judged,) = document.responses
    question = judged.llm_response.experiment_input.source_context_qa
    assert (question.identifier, question.expected_answer) == ("3", "")
    assert "context_questions" not in question.model_fields_set
    assert judged.evaluations[0].additional_tags_info == {"why": ("so",)}
    assert document.experiment_metadata.system_prompt.content == "Use the context."


def test_other_retrieval_types_are_read_and_not_written(tmp_path: Path) -> None:
    value = {"metadata": metadata(retrieval_type="GRAPH_RAG"), "questions": [asked(0, [1])]}

    document = read_document(store(tmp_path / "in.json", value))

    with pytest.raises(InputError, match="knows no retrieval_type 'GRAPH_RAG'"):
        write_document(tmp_path / "out.json", document)
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"client_enum": "LLAMA"}, "client_enum"),
        ({"creation_timestamp": "yesterday"}, "ISO 8601"),
        ({"input_path": ""}, "input_path"),
        ({"output_path": ""}, "output_path"),
    ],
)
def test_what_knowornot_would_refuse_is_not_written(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    value = {"metadata": metadata(**changes), "responses": [replied(asked(0, None), "R")]}
    document = read_document(store(tmp_path / "in.json", value))

    with pytest.raises(InputError, match=word):
        write_document(tmp_path / "out.json", document)


def test_a_fault_is_named_with_its_line(tmp_path: Path) -> None:
    questions = [*QUESTIONS, {"identifier": "x", "question": 7, "answer": "A"}]
    path = store(tmp_path / "kb.json", {"knowledge_base_identifier": "kb", "questions": questions})

    with pytest.raises(InputError, match=r"questions\.3\.question") as caught:
        read_document(path)

    line = next(
        number
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if '"question": 7' in text
    )
    assert caught.value.where == f"{path}:{line}"


def test_a_question_document_keeps_its_name(tmp_path: Path) -> None:
    path = store(tmp_path / "x.json", {"knowledge_base_identifier": "kb", "questions": QUESTIONS})

    document = read_document(path)

    assert isinstance(document, QuestionDocument)
    assert document.knowledge_base_identifier == "kb"


@settings(max_examples=40, deadline=None)
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


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_document_with_any_one_value_changed_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    # A copy: the questions in it belong to other tests as well.
    value = deepcopy({"metadata": metadata(), "responses": [replied(asked(0, [1, 2]), "R", 1)]})
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            place[key] = data.draw(_JSON)
            break
        place = inner
    path = store(tmp_path_factory.mktemp("any") / "any.json", value)
    try:
        read_document(path)
    except InputError as error:
        assert error.where.startswith(f"{path}:")  # noqa: PT017 - only some values are refused


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00\xfe", b"[" * 5000, b'{"questions":' * 3000, b"NaN", b"1" * 9000]
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)

    with pytest.raises(InputError):
        read_document(path)
