"""Pieces of documents: chunks, sentences, and what makes a question unusable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowgate.offline_eval.data.facts import BuildSettings, build_questions, load_chunks
from knowgate.offline_eval.data.facts._blocks import ReadDocument, TextKind
from knowgate.offline_eval.data.facts._checks import question_fault
from knowgate.offline_eval.data.facts._documents import read_content
from knowgate.offline_eval.data.facts._sentences import sentences_of, split_sentences
from tests.offline_eval.cli.commands import read_lines
from tests.support.tables import table


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    table(__file__, "a question is refused for its fault"),
)
def test_a_question_is_refused_for_its_fault(question: str, answer: str, fault: str | None) -> None:
    found = question_fault(question, answer)

    assert (found and found[0]) == fault


def documents(*contents: str) -> list[ReadDocument]:
    read = (read_content(text.encode(), ".txt") for text in contents)
    return [replace(one, name=f"d{number}.txt") for number, one in enumerate(read)]


@pytest.mark.parametrize(
    ("text", "expected"),
    table(__file__, "sentences end where they end"),
)  # fmt: skip
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_sentences_are_numbered_within_their_document_and_know_their_heading() -> None:
    rows = sentences_of(documents("LANES\nKeep left. Overtake\non the right.\n\n• Be alert\n"))

    assert [(row.sentence_id, row.text, row.kind, row.topic) for row in rows] == [
        ("d0.txt#0", "LANES", TextKind.HEADING, "LANES"),
        ("d0.txt#1", "Keep left.", TextKind.SENTENCE, "LANES"),
        ("d0.txt#2", "Overtake on the right.", TextKind.SENTENCE, "LANES"),
        ("d0.txt#3", "Be alert", TextKind.ITEM, "LANES"),
    ]


def test_what_many_documents_repeat_is_boilerplate_whatever_its_numbers() -> None:
    rows = sentences_of(
        documents(
            *(f"City handbook page {n}\n\nRule {word} holds." for n, word in enumerate("abcd"))
        )
    )

    assert [row.text for row in rows if not row.boilerplate] == [
        f"Rule {word} holds." for word in "abcd"
    ]


PAGE = """---
title: hidden
---
# Plans

Every plan has storage.

## What does Basic cost?

Basic costs 12 euros.

```
plan --basic
  --yearly
```

| Plan | Seats |
|---|---|
| Basic | 3 |
| Pro | 20 |
"""

LONG = """The ferry to Old Quay leaves from pier 3 every 20 minutes on weekdays.

The company that runs the ferry was founded in 1921 by the harbour master.
"""


def folder_with(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / "docs" / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "docs"


def test_a_chunk_holds_everything_of_a_page_in_reading_order(tmp_path: Path) -> None:
    (chunk,) = load_chunks(folder_with(tmp_path, help__plans_md=PAGE))

    assert chunk.page_content == (
        "Plans\nEvery plan has storage.\n\nWhat does Basic cost?\nBasic costs 12 euros.\n\n"
        "plan --basic\n  --yearly\n\nPlan: Basic; Seats: 3\nPlan: Pro; Seats: 20"
    )
    assert chunk.metadata == {"source": "help/plans.md", "chunk": 0}


def test_a_page_is_cut_before_headings_and_a_long_section_between_its_sentences(
    tmp_path: Path,
) -> None:
    long = "One two three four. Five six seven eight. Nine ten eleven twelve."
    folder = folder_with(tmp_path, page_md=f"# Short\n\nTwo words.\n\n# Long\n\n{long}\n")

    chunks = load_chunks(folder, chunk_size=8)

    assert [chunk.page_content for chunk in chunks] == [
        "Short\nTwo words.",
        "Long",
        "One two three four. Five six seven eight.",
        "Nine ten eleven twelve.",
    ]
    assert [chunk.metadata["chunk"] for chunk in chunks] == [0, 1, 2, 3]


def test_each_record_of_a_table_is_a_chunk(tmp_path: Path) -> None:
    records = [{"question": "Why?", "answer": "Because."}, {"question": "How?", "answer": "So."}]
    folder = folder_with(
        tmp_path, faq_json=json.dumps(records), ages_csv="class,age\n3A,18\n2B,16\n"
    )

    assert [chunk.page_content for chunk in load_chunks(folder)] == [
        "class: 3A; age: 18",
        "class: 2B; age: 16",
        "Why?\nBecause.",
        "How?\nSo.",
    ]


def built(folder: Path, tmp_path: Path, chunk_size: int) -> list[dict[str, Any]]:
    build_questions([folder], tmp_path / "kb", settings=BuildSettings(chunk_size=chunk_size))
    return read_lines(tmp_path / "kb" / "questions.jsonl")


def test_the_passage_of_a_question_is_the_chunk_that_holds_its_answer(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, plans_md=PAGE, long_md=LONG)

    rows = built(folder, tmp_path, chunk_size=20)

    chunks = {
        (one.metadata["source"], one.metadata["chunk"]): one.page_content
        for one in load_chunks(folder, 20)
    }
    assert {row["made_by"] for row in rows} == {"rules", ""}
    for row in rows:
        assert row["passage"] == chunks[row["source"], row["chunk"]]
        assert not row["made_by"] or row["answer"] in row["passage"]
    assert [row["chunk"] for row in rows if row["source"] == "long.md"] == [1]


def test_a_question_whose_answer_no_single_chunk_states_is_a_failure(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, long_md=LONG)

    rows = built(folder, tmp_path, chunk_size=6)

    assert rows == []
    failures = read_lines(tmp_path / "kb" / "failures.jsonl")
    assert {row["type"] for row in failures} == {"in_several_chunks"}
