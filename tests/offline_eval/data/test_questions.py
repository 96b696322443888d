"""Reading questions: every layout that is accepted, and one clear line for each fault."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.questions import QuestionRecord

_A = {"id": "a", "question": "Who?", "answer": "Ann."}
_B = {"id": "b", "question": "When?", "answer": "At nine."}
_EXPECTED = [QuestionRecord("a", "Who?", "Ann."), QuestionRecord("b", "When?", "At nine.")]


def _file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def _lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        QuestionRecord.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert " — " in message, "the hint is missing"
    assert path.name in message
    return message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kb.json", json.dumps([_A, _B])),
        ("kb.json", json.dumps({"questions": [_A, _B]})),
        ("kb.json", json.dumps({"meta": {"questions": [1, {}]}, "questions": [_A, _B]}, indent=3)),
        ("kb.json", "\ufeff" + json.dumps([_A, _B], indent=1).replace("\n", "\r\n")),
        ("kb.jsonl", _lines(_A, _B)),
        ("kb.json", _lines(_A, _B)),
        ("kb", "\n" + _lines(_A) + "\n" + json.dumps(_B)),
        ("kb.JSONL", "\n" + _lines(_A) + "  \n\n" + json.dumps(_B)),
        ("kb.ndjson", "\ufeff" + _lines(_A, _B).replace("\n", "\r\n")),
    ],
    ids=[
        "list",
        "document",
        "nested name",
        "BOM CRLF",
        "lines",
        "lines in .json",
        "lines, no suffix",
        "blank lines",
        "BOM CRLF lines",
    ],
)
def test_every_layout_gives_the_same_records(tmp_path: Path, name: str, content: str) -> None:
    assert QuestionRecord.read(_file(tmp_path, name, content)) == _EXPECTED


def test_surrogates_and_nul_in_text_are_cleaned(tmp_path: Path) -> None:
    content = '{"id": "\\ud800", "question": "W\\u0000ho\\udfff?", "answer": "\\ud83d\\ude00"}\n'

    found = QuestionRecord.read(_file(tmp_path, "kb.jsonl", content + _lines(_B)))

    assert found[0] == QuestionRecord("\ufffd", "W ho\ufffd?", "\U0001f600")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("kb.jsonl", "", "the knowledge base is empty"),
        ("kb.json", "", "the file is empty"),
        ("kb.json", "[]", "the knowledge base is empty"),
        ("kb.json", '{"questions": []}', "the knowledge base is empty"),
        ("kb.jsonl", _lines(_A), "one question only"),
        ("kb.json", '\n\n{"questions": "many"}', "expected a list of questions"),
        ("kb.json", "{}", "expected a list of questions"),
        ("kb.json", "3", "expected a list of questions"),
        ("kb.json", "null", "expected a list of questions"),
        ("kb.json", '[\n\n"x"]', "kb.json: questions[0]: expected a JSON object, found str"),
        ("kb.jsonl", _lines(_A) + "[]\n", "kb.jsonl:2: expected a JSON object, found list"),
        ("kb.jsonl", _lines(_A) + '{"id": \n', "kb.jsonl:2: broken JSON"),
        ("kb.json", '{\n "questions": [\n {"id" 3}\n]}', "kb.json:3: broken JSON"),
        ("kb.jsonl", _lines(_A).encode() + b'{"a": "\xff"}\n', "kb.jsonl:2: not UTF-8"),
        ("kb.json", json.dumps([_A, _B]).encode("utf-16"), "kb.json:1: not UTF-8"),
        ("kb.json", "[" * 200_000, "nested too deeply"),
        ("kb.jsonl", _lines(_A) + '{"a":' * 200_000 + "\n", "kb.jsonl:2: broken JSON (nested"),
    ],
)
def test_a_bad_file_is_one_line_that_says_what_where_and_the_mend(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    assert words in _refused(_file(tmp_path, name, content))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["questions", "id", "question", "answer"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_VALUES, st.sampled_from([None, 1]))
def test_any_json_is_read_or_refused_and_never_crashes(
    tmp_path: Path, value: object, indent: int | None
) -> None:
    for path in (
        _file(tmp_path, "kb.json", json.dumps(value, indent=indent)),
        _file(tmp_path, "kb.jsonl", json.dumps(value)),
    ):
        # Any other error fails the test.
        with contextlib.suppress(InputError):
            found = QuestionRecord.read(path)
            assert len({r.question_id for r in found}) == len(found) >= 2
