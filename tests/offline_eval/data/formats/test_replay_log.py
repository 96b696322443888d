"""Logs of replies, read line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats.replay import LoggedPassage, read_replay_log
from tests.offline_eval.cli.commands import write_lines
from tests.support.tables import table

_LINE = {"id": "a", "response": "It is red."}

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS = table(__file__, "fields")


def _passage(**fields: str) -> LoggedPassage:
    return LoggedPassage.model_validate(fields)


def _read(folder: Path, *lines: dict[str, Any], name: str = "log.jsonl") -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    return read_replay_log(write_lines(folder / name, lines))


@pytest.mark.parametrize(
    ("name", "domain", "retrieval", "prompt"),
    table(__file__, "a file name tells domain retrieval and prompt"),
)
def test_a_file_name_tells_domain_retrieval_and_prompt(
    tmp_path: Path, name: str, domain: str, retrieval: str, prompt: str
) -> None:
    (reply,) = _read(tmp_path / "gpt-4o_runs", _LINE, name=f"{name}.jsonl")

    assert (reply.knowledge_base, reply.retrieval, reply.prompt) == (domain, retrieval, prompt)
    assert reply.model == "gpt-4o"


@pytest.mark.parametrize(
    ("fields", "context"),
    [
        ({}, None),
        ({"context_ids": None}, ()),
        ({"context_ids": []}, ()),
        ({"context_ids": ["b", 3]}, (_passage(id="b"), _passage(id="3"))),
        ({"contexts": None}, ()),
        ({"contexts": ["red"]}, (_passage(text="red"),)),
        ({"context": "red"}, (_passage(text="red"),)),
        ({"contexts": [{"id": "b", "text": "red"}]}, (_passage(id="b", text="red"),)),
        ({"retrieval": "DIRECT"}, ()),
    ],
)
def test_contexts_are_ids_or_texts(
    tmp_path: Path, fields: dict[str, Any], context: tuple[LoggedPassage, ...] | None
) -> None:
    assert _read(tmp_path, {**_LINE, **fields})[0].context == context


@pytest.mark.parametrize(
    ("fields", "failure"),
    [({"response": None}, "the log holds no reply"), ({"error": "timeout"}, "timeout")],
)
def test_a_failed_call_is_a_line_without_a_reply(
    tmp_path: Path, fields: dict[str, Any], failure: str
) -> None:
    (reply,) = _read(tmp_path, {**_LINE, **fields})

    assert reply.failure == failure


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=6)
        | st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4).map(
            lambda d: {**_LINE, **d}
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_json_is_a_log_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    try:
        replies = read_replay_log(path)
    except InputError:
        return
    assert len(replies) == len(lines)
    for reply in replies:
        assert reply.failure is not None or reply.response is not None
        json.dumps(reply.response, ensure_ascii=False).encode()
