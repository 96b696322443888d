"""From blocks to sentences."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.data.facts._documents import ReadDocument, read_content
from knowgate.offline_eval.data.facts._rows import SentenceKind
from knowgate.offline_eval.data.facts._sentences import sentences_of, split_sentences


def documents(*contents: str) -> list[ReadDocument]:
    return [
        ReadDocument(f"d{number}.txt", "", read_content(text.encode(), ".txt"))
        for number, text in enumerate(contents)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. Tan of the U.S. office pays $5.50, e.g. on Jan. 3. He left. See Fig. 3 (s. 4).",
            ["Dr. Tan of the U.S. office pays $5.50, e.g. on Jan. 3.", "He left.",
             "See Fig. 3 (s. 4)."],
        ),
        ("The limit is 50 km/h. Do not exceed it.", ["The limit is 50 km/h.", "Do not exceed it."]),
        ("“Really?” she asked. Yes!", ["“Really?” she asked.", "Yes!"]),
        ("他在北京。今天是2020年！你好吗？", ["他在北京。", "今天是2020年！", "你好吗？"]),
        ("no end at all", ["no end at all"]),
        ("", []),
    ],
)  # fmt: skip
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_sentences_are_numbered_within_their_document_and_know_their_heading() -> None:
    rows = sentences_of(documents("LANES\nKeep left. Overtake\non the right.\n\n• Be alert\n"))

    assert [(row.sentence_id, row.text, row.kind, row.topic) for row in rows] == [
        ("d0.txt#0", "LANES", SentenceKind.HEADING, "LANES"),
        ("d0.txt#1", "Keep left.", SentenceKind.SENTENCE, "LANES"),
        ("d0.txt#2", "Overtake on the right.", SentenceKind.SENTENCE, "LANES"),
        ("d0.txt#3", "Be alert", SentenceKind.ITEM, "LANES"),
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
