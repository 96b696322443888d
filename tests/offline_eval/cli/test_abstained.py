"""`knowgate abstained`: one verdict per reply, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgate.guard.abstention import load_rule
from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, refused, write_lines


def _abstained(knowgate: Knowgate, folder: Path, *more: str) -> Outcome:
    return knowgate(
        "abstained", "--input", folder / "in.jsonl", "--output", folder / "out.jsonl", *more
    )


def test_each_reply_gets_a_verdict_and_keeps_its_id(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(
        tmp_path / "in.jsonl",
        [
            {"id": "a", "question": "What is the fee?", "response": "I don't know."},
            {"id": 7, "question": "What is the fee?", "response": "It is 12 dollars."},
            {"id": None, "response": "无法回答。"},
            {"response": " ", "question": None},
        ],
    )

    outcome = _abstained(knowgate, tmp_path)

    found = read_lines(tmp_path / "out.jsonl")
    assert (outcome.code, outcome.err) == (0, "")
    assert "4 replies read, 3 abstained" in outcome.out
    assert [line["abstained"] for line in found] == [True, False, True, True]
    assert [line.get("id", "none") for line in found] == ["a", 7, None, "none"]
    assert all(0 <= line["probability"] <= 1 for line in found)
    assert [sorted(line) for line in found[2:]] == [
        ["abstained", "id", "probability"],
        ["abstained", "probability"],
    ]


@pytest.mark.parametrize("citation", [None, "", "no citation", [], -1])
def test_an_empty_citation_field_speaks_for_abstention(
    knowgate: Knowgate, tmp_path: Path, citation: Any
) -> None:
    reply = {"response": "The fee is not mentioned. Fees are usually paid at the counter."}
    write_lines(tmp_path / "in.jsonl", [{**reply, "citation": c} for c in (citation, 0)] + [reply])

    _abstained(knowgate, tmp_path)

    uncited, cited, unknown = (line["probability"] for line in read_lines(tmp_path / "out.jsonl"))
    assert uncited > unknown > cited


@pytest.mark.parametrize("rule", ["uaqfact", "uniknow"])
def test_published_rules_go_by_name(knowgate: Knowgate, tmp_path: Path, rule: str) -> None:
    replies = ["There is no fee.", "It is unknown.", "Yes.", "无法回答"]
    write_lines(tmp_path / "in.jsonl", [{"response": reply} for reply in replies])

    _abstained(knowgate, tmp_path, "--rule", rule)

    expected = load_rule(rule).detect_many(replies)
    found = read_lines(tmp_path / "out.jsonl")
    assert [(line["abstained"], line["probability"]) for line in found] == [
        (verdict.abstained, verdict.probability) for verdict in expected
    ]


def test_no_lines_give_no_lines(knowgate: Knowgate, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()

    assert _abstained(knowgate, tmp_path).code == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"question": "Q?"}', "'response' is missing"),
        ('{"response": null}', "'response' must be text"),
        ('{"response": 3}', "'response' must be text"),
        ('{"response": "A", "question": 3}', "'question' must be text"),
        ('{"response": "A", "id": NaN}', "'id'"),
        ('{"response": ', "broken JSON"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    knowgate: Knowgate, tmp_path: Path, line: str, words: str
) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"response": "A"}}\n{line}\n', encoding="utf-8")

    refused(_abstained(knowgate, tmp_path), "in.jsonl:2: ", words)

    assert not (tmp_path / "out.jsonl").exists()


def test_an_unknown_rule_is_refused(knowgate: Knowgate, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", [{"response": "A"}])

    refused(_abstained(knowgate, tmp_path, "--rule", "guess"), "'guess'", "uaqfact, uniknow")

    assert not (tmp_path / "out.jsonl").exists()
