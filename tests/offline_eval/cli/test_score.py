"""`knowgate score`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Policy
from knowgate.guard.signals.relevance import LexicalScorer
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines


def _score(knowgate: Knowgate, folder: Path, *more: str | Path) -> Any:
    return knowgate(
        "score", "--scorer", "lexical", "--input", folder / "in.jsonl",
        "--output", folder / "out.jsonl", *more,
    )  # fmt: skip


def test_each_line_is_scored_in_order_and_its_id_passed_on(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    lines = [
        {"id": i, "question": f"When does pool {i} open?", "passages": [f"Pool {i} opens.", "No."]}
        for i in range(70)
    ]
    write_lines(tmp_path / "in.jsonl", lines)

    outcome = _score(knowgate, tmp_path)

    found = read_lines(tmp_path / "out.jsonl")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line["id"] for line in found] == list(range(70))
    for line, value in zip(lines, found, strict=True):
        expected = LexicalScorer().score(str(line["question"]), line["passages"])  # type: ignore[arg-type]
        assert value["scores"] == expected.tolist()
        assert value["relevance"] == max(expected)
        assert value["error"] is None


def test_odd_passages_and_questions_are_lines_and_not_failures(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    lines: list[dict[str, Any]] = [
        {"question": "Pool?", "passages": []},
        {"question": "Pool?", "passages": ["", "pool", {"text": ""}, {"page_content": "pool"}]},
        {"question": " ", "passages": ["pool"]},
        {"question": "Pool?", "passages": ["pool"], "gold": float("nan"), "more": {}},
        {"question": "Po\ud800ol\0?", "passages": ["\udfff"], "id": "\ud800"},
    ]
    write_lines(tmp_path / "in.jsonl", lines)

    _score(knowgate, tmp_path)

    found = read_lines(tmp_path / "out.jsonl")
    assert (found[0]["scores"], found[0]["relevance"]) == ([], 0.0)
    assert [score is None for score in found[1]["scores"]] == [True, False, True, False]
    assert found[2] == {"scores": None, "relevance": None, "error": "the question is empty"}
    assert set(found[3]) == {"scores", "relevance", "error"}
    assert found[4]["id"] == "\ud800"


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_no_lines_give_no_lines(knowgate: Knowgate, tmp_path: Path, content: str) -> None:
    (tmp_path / "in.jsonl").write_text(content, encoding="utf-8")

    outcome = _score(knowgate, tmp_path)

    assert outcome.code == 0
    assert "0 lines scored" in outcome.out
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{}", "'question' is missing"),
        ('{"question": "Q"}', "'passages' is missing"),
        ('{"question": 1, "passages": []}', "'question' must be text"),
        ('{"question": "Q", "passages": "P"}', "'passages' must be a list"),
        ('{"question": "Q", "passages": [1]}', "passages[0] is not text"),
        ('{"question": "Q", "passages": ["P", {"body": "x"}]}', "passages[1] is not text"),
        ('{"question": "Q", "passages": [], "id": NaN}', "'id' holds NaN"),
        ('{"question": "Q", "passages": [], "id": [Infinity]}', "'id' holds NaN"),
        ("[]", "expected a JSON object"),
        ('{"question"', "broken JSON"),
    ],
)
def test_a_bad_line_is_named_and_neither_file_is_touched(
    knowgate: Knowgate, tmp_path: Path, line: str, words: str
) -> None:
    content = '{"question": "Q", "passages": ["P"]}\n' + line + "\n"
    (tmp_path / "in.jsonl").write_text(content, encoding="utf-8")
    (tmp_path / "out.jsonl").write_text("kept", encoding="utf-8")

    refused(_score(knowgate, tmp_path), "in.jsonl:2: ", words)
    refused(_score(knowgate, tmp_path, "--output", tmp_path / "in.jsonl"), "in.jsonl:2: ")

    assert (tmp_path / "in.jsonl").read_text(encoding="utf-8") == content
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == "kept"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_output_may_take_the_place_of_the_input(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", [{"question": "Pool?", "passages": ["pool"]}] * 3)

    outcome = _score(knowgate, tmp_path, "--output", tmp_path / "in.jsonl")

    assert outcome.code == 0
    assert len(read_lines(tmp_path / "in.jsonl")) == 3


def test_a_policy_gives_calibrator_and_aggregator(knowgate: Knowgate, workplace: Path) -> None:
    write_lines(workplace / "in.jsonl", [{"question": "Pool open?", "passages": ["open"]}])
    policy = Policy.load(workplace / "policy.json")

    _score(knowgate, workplace, "--policy", workplace / "policy.json")

    found = read_lines(workplace / "out.jsonl")[0]
    assert found["relevance"] == policy.relevance_calibrator.apply(found["scores"][0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scorer": {"kind": "other"}}, "not as it was calibrated: its digest is that of other"),
        ({"schema_version": 99}, "policy schema 99 is newer than 1"),
        ({"schema_version": None}, "'schema_version' is missing"),
        ({"relevance_threshold": 2}, "'relevance_threshold'"),
        ({"surprise": 1}, "'surprise'"),
        ({"aggregator": "median"}, "not as it was calibrated"),
    ],
)
def test_a_policy_that_cannot_be_used_is_one_line(
    knowgate: Knowgate, workplace: Path, change: dict[str, Any], words: str
) -> None:
    path = workplace / "policy.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8"
    )
    write_lines(workplace / "in.jsonl", [{"question": "Pool?", "passages": ["pool"]}])

    outcome = _score(knowgate, workplace, "--policy", path)

    refused(outcome, words, "policy.json")
    assert not (workplace / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--scorer", "oracle", "unknown scorer"),
        ("--aggregator", "median", "unknown aggregator"),
        ("--input", "nowhere.jsonl", "no such file"),
        ("--policy", "nowhere.json", "no such file"),
        ("--output", "in.jsonl/out.jsonl", "cannot be written"),
        ("--output", ".", "cannot be written"),
    ],
)
def test_what_is_not_there_is_one_line(
    knowgate: Knowgate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    value: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "in.jsonl", [{"question": "Pool?", "passages": ["pool"]}])

    refused(_score(knowgate, tmp_path, option, value), words)

    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("scorer", ["bi_encoder", "late_interaction"])
def test_a_chinese_question_gets_a_reason_instead_of_a_number(
    knowgate: Knowgate, tmp_path: Path, scorer: str
) -> None:
    lines = [
        {"question": "图书馆几点开门？", "passages": ["图书馆九点开门。"]},
        {"question": "When does it open?", "passages": ["It opens at nine."]},
    ]
    write_lines(tmp_path / "in.jsonl", lines)

    _score(knowgate, tmp_path, "--scorer", scorer)

    unsupported, known = read_lines(tmp_path / "out.jsonl")
    assert unsupported == {"scores": None, "relevance": None, "error": "unsupported language"}
    assert known["relevance"] > 0.5


def test_an_aggregator_that_the_scorer_has_not_is_refused(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in.jsonl", [{"question": "q", "passages": ["p"]}])
    outcome = _score(knowgate, tmp_path, "--aggregator", "joint")
    refused(outcome, "has no joint value")
    assert not (tmp_path / "out.jsonl").exists()
