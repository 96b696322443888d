"""Sample logs of the lm-evaluation-harness, as its versions write them, and as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats.lm_eval import Sample, import_lm_eval, read_samples
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from tests.offline_eval.cli.commands import write_lines

GENERATION = {
    "doc_id": 0,
    "doc": {"question": "Colour of the bus?", "answer": {"value": "Red"}},
    "target": ["Red", "red"],
    "arguments": {"gen_args_0": {"arg_0": "Q: Colour of the bus?\nA:", "arg_1": {"until": ["\n"]}}},
    "resps": [[" Red. Yes."]],
    "filtered_resps": ["Red."],
    "filter": "none",
    "metrics": ["exact_match"],
    "doc_hash": "0",
    "prompt_hash": "1",
    "target_hash": "2",
    "exact_match": 1.0,
}
CHOICE = {
    "doc_id": 1,
    "doc": {"query": "The sky is", "choices": ["blue", "green"], "gold": 0},
    "target": 0,
    "arguments": [["The sky is", " blue"], ["The sky is", " green"]],
    "resps": [[[-3.5, False]], [[-1.25, True]]],
    "filtered_resps": [[-3.5, False], [-1.25, True]],
    "acc": 0.0,
    "acc_norm": 1.0,
}

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def _one(folder: Path, value: dict[str, Any]) -> Sample:
    ((_, sample),) = read_samples(write_lines(folder / "samples_task.jsonl", [value]))
    return sample


def test_a_generation_is_read(tmp_path: Path) -> None:
    sample = _one(tmp_path, GENERATION)

    assert (sample.doc_id, sample.question) == ("0", "Colour of the bus?")
    assert (sample.expected, sample.response) == ("Red", "Red.")
    assert (sample.filter, sample.metrics) == ("none", {"exact_match": 1.0})


def test_the_likeliest_choice_is_the_reply(tmp_path: Path) -> None:
    sample = _one(tmp_path, CHOICE)

    assert (sample.question, sample.expected, sample.response) == ("The sky is", "blue", "green")
    assert sample.metrics == {"acc": 0.0, "acc_norm": 1.0}


@pytest.mark.parametrize(
    ("changes", "response"),
    [
        ({"filtered_resps": [["Red."]]}, "Red."),
        ({"filtered_resps": ["[invalid]"]}, " Red. Yes."),
        ({"filtered_resps": []}, " Red. Yes."),
        ({"filtered_resps": [""]}, ""),
    ],
)
def test_the_filtered_response_is_the_reply_where_there_is_one(
    tmp_path: Path, changes: dict[str, Any], response: str
) -> None:
    assert _one(tmp_path, {**GENERATION, **changes}).response == response


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(GENERATION)), _JSON, max_size=4), st.booleans())
def test_any_json_is_a_sample_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any], choice: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "samples_t.jsonl"
    path.write_text(json.dumps({**(CHOICE if choice else GENERATION), **changes}), "utf-8")
    try:
        ((_, sample),) = read_samples(path)
    except InputError:
        return
    json.dumps([sample.response, sample.metrics], allow_nan=False).encode()


def _run(folder: Path, *lines: dict[str, Any], **more: Any) -> RepliesRun:
    log = write_lines(folder / "samples_t.jsonl", lines)
    return RepliesRun.read(import_lm_eval([log], folder / "run", **more))


def test_samples_become_answerable_cases_with_judgements(tmp_path: Path) -> None:
    run = _run(tmp_path, GENERATION, CHOICE, model="m")

    assert [reply.response for reply in run.replies.values()] == ["Red.", "green"]
    assert {case.kind for case in run.cases.values()} == {CaseKind.IN_KB}
    assert [question.answer for question in run.questions.values()] == ["Red", "blue"]
    assert {
        one.judgement_id: (one.outcome, one.probability) for one in run.judgements.values()
    } == {
        "m/t/0/in_kb/exact_match/lm-eval": ("1", 1.0),
        "m/t/1/in_kb/acc/lm-eval": ("0", 0.0),
        "m/t/1/in_kb/acc_norm/lm-eval": ("1", 1.0),
    }
