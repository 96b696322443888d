"""KnowOrNot's documents, read with tolerance, and its experiments as runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats.knowornot import (
    import_knowornot,
    read_document,
)
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from tests.offline_eval.data.formats.knowornot_experiments import (
    QUESTIONS,
    asked,
    metadata,
    replied,
    spec,
    store,
    verdict,
)
from tests.support.tables import table

_NAMES = table(__file__, "names")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


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


def _import(folder: Path, *documents: Any, **more: Any) -> RepliesRun:
    paths = [store(folder / f"{n}.json", value) for n, value in enumerate(documents)]
    return RepliesRun.read(import_knowornot(paths, folder / "run", **more))


def _output(**changes: Any) -> dict[str, Any]:
    questions = [asked(0, [1, 2]), asked(1, [2])]
    replies = [replied(questions[0], "It is red.", 1), replied(questions[1], "I don't know.")]
    return {"metadata": metadata(**changes), "responses": replies}


def _evaluated(specs: list[Any], *verdicts: list[Any], **changes: Any) -> dict[str, Any]:
    output = _output(**changes)
    return {
        "path_to_store": "evaluated.json",
        "experiment_metadata": output["metadata"],
        "evaluation_metadata": specs,
        "responses": [
            {"llm_response": reply, "evaluations": found}
            for reply, found in zip(output["responses"], verdicts, strict=True)
        ],
    }


@pytest.fixture(scope="module")
def artefacts(shared_data: Path) -> list[Path]:
    folder = shared_data / "policybench" / "knowornot_artifacts"
    return [folder / f"{name}.json" for name in ("input", "output", "evaluated")]


def test_published_artefacts_become_one_system_with_the_published_counts(
    artefacts: list[Path], tmp_path: Path
) -> None:
    run = RepliesRun.read(import_knowornot(artefacts, tmp_path / "run"))

    (system,) = run.systems.values()
    assert (system.model, system.retrieval) == ("gpt-4o-2024-11-20", "basic_rag")
    assert (system.prompt, system.guard) == ("conservative_llm_prompt", "off")
    assert Counter((j.judge, j.criterion, j.outcome) for j in run.judgements.values()) == {
        ("given", "abstention", "yes"): 46,
        ("given", "abstention", "no"): 9,
        ("given", "factuality", "NA"): 46,
        ("given", "factuality", "tier_1"): 2,
        ("given", "factuality", "tier_2"): 1,
        ("given", "factuality", "tier_3"): 6,
    }
    assert {case.kind for case in run.cases.values()} == {CaseKind.LEFT_OUT}
    assert len(run.questions) == len(run.passages) == len(run.replies) == 55
    assert {len(run.context_passages(reply)) for reply in run.replies.values()} == {5}


def test_question_documents_give_expected_answers(tmp_path: Path) -> None:
    bare = {"identifier": "kb_0", "question": "Colour of the bus?"}
    question = {"prompt_to_llm": "", "source_context_qa": {**bare, "context_questions": None}}
    output = {"metadata": metadata(), "responses": [replied(question, "R")]}
    document = {"knowledge_base_identifier": "kb", "questions": QUESTIONS}

    run = _import(tmp_path, output, document)

    (reply,) = run.replies.values()
    assert run.question_of(reply).answer == "Red."
    assert (len(run.questions), len(run.cases)) == (3, 1)
    assert reply.context is not None
    assert reply.context.kind == "none"


def test_a_second_text_of_an_id_gets_a_number_that_no_other_question_has(tmp_path: Path) -> None:
    names = [{"identifier": "kb_0"}, {"identifier": "kb_0"}, {"identifier": "kb_0~2"}]
    replies = [replied(asked(at, None, **name), f"R{at}") for at, name in enumerate(names)]

    run = _import(tmp_path, {"metadata": metadata(), "responses": replies})

    found = {run.question_of(reply).question: reply.response for reply in run.replies.values()}
    assert found == {one["question"]: f"R{at}" for at, one in enumerate(QUESTIONS)}
    assert sorted(run.questions) == ["kb_0", "kb_0~2", "kb_0~3"]


def test_contradictions_are_refused(tmp_path: Path) -> None:
    specs = [spec("abstention")]
    first = _evaluated(specs, [verdict("abstention", "no")], [])

    with pytest.raises(InputError, match="contradict each other"):
        _import(tmp_path / "a", first, _evaluated(specs, [verdict("abstention", "yes")], []))
    changed = _output()
    changed["responses"][0]["llm_response"]["response"] = "It is blue."
    with pytest.raises(InputError, match="two different replies"):
        _import(tmp_path / "b", first, changed)
    assert not (tmp_path / "a" / "run").exists()
