"""Questions without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.offline_eval.data.facts import build_questions
from knowgate.offline_eval.data.facts._cloze import cloze_facts
from knowgate.offline_eval.data.facts._documents import read_content
from knowgate.offline_eval.data.facts._sentences import sentences_of
from knowgate.offline_eval.data.questions import QuestionRecord
from tests.support.tables import table


def asked(text: str, suffix: str = ".txt") -> list[tuple[str, str]]:
    document = replace(read_content(text.encode(), suffix), name="d")
    return [(row.question, row.answer) for row in cloze_facts(sentences_of([document]))[1]]


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    table(__file__, "a sentence is asked about"),
)
def test_a_sentence_is_asked_about(sentence: str, question: str, answer: str) -> None:
    assert asked(sentence) == [(question, answer)]


@pytest.mark.parametrize(
    "sentence",
    table(__file__, "a sentence that leans on others or has no piece of its own is not"),
)
def test_a_sentence_that_leans_on_others_or_has_no_piece_of_its_own_is_not(sentence: str) -> None:
    assert asked(sentence) == []


def test_sentences_that_only_differ_in_what_is_asked_are_ambiguous(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "The limit in a tunnel must be 50 km/h. The limit in a tunnel must be 70 km/h. "
        "The limit on a bridge must be 60 km/h. The fine for parking must be $70."
    )

    totals = build_questions([tmp_path / "a.txt"], tmp_path / "kb")

    assert [row.answer for row in QuestionRecord.read(tmp_path / "kb" / "questions.jsonl")] == [
        "60 km/h",
        "$70",
    ]
    assert totals.failures == {"ambiguous_question": 2}
    assert totals.facts == 4


@pytest.mark.parametrize(
    "sentence",
    [
        # The heading stands twice.
        "Zig-zag yellow lines Zig-zag yellow lines show that stopping costs 70 dollars.",
        # Items of a list in one line.
        "At the lights you must not a. sip hot drinks, b. read newspapers for 10 minutes.",
        # Which lines, was said before.
        "The white lines indicate the middle area of roads.",
        # Nothing but the blank says what happens.
        "After passing through some water, the brakes become weak.",
        # Anything fits.
        "You must always stop before the stop-line.",
        "Drivers know that as your large vehicle approaches, sheep may panic and run away.",
    ],
)
def test_a_sentence_that_makes_a_poor_question_is_passed_over(sentence: str) -> None:
    assert asked(sentence) == []
