"""Whether what is left out stands elsewhere all the same."""

from __future__ import annotations

import pytest

from knowgate.guard.engine import BiEncoderScorer
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord
from knowgate.offline_eval.suites.ookb._left_out_check import left_out_check
from knowgate.offline_eval.systems.retrieval import PassageIndex
from tests.offline_eval.suites.ookb.toy import ToyEncoder


def _check(pairs: list[tuple[str, str]], encoder: object = None) -> list[tuple[str, str, str]]:
    records = [QuestionRecord(str(at), *pair) for at, pair in enumerate(pairs)]
    base = KnowledgeBase.of(records, PassageKind.ANSWER, where="toy")
    index = PassageIndex(base, encoder or ToyEncoder())  # type: ignore[arg-type]
    found = left_out_check(records, base, index)
    return [(one.question_id, one.passage_id, one.how) for one in found]


def test_an_answer_that_stands_in_another_passage_is_reported() -> None:
    pairs = [
        ("Who pays?", "The owner pays the fee."),
        ("How does it work?", "First you apply. THE owner — pays the fee; then you wait."),
        ("When is lunch?", "Lunch is at noon."),
    ]

    assert _check(pairs) == [("0", "1", "contains_answer")]


def test_a_part_of_a_longer_word_is_no_answer() -> None:
    pairs = [("What?", "a b c art"), ("Which?", "a b c artist"), ("Who?", "z y x w")]

    assert "contains_answer" not in {how for _, _, how in _check(pairs)}


def test_a_short_answer_counts_only_in_a_passage_about_the_question() -> None:
    pairs = [
        ("What does the ferry to town cost?", "Four crowns."),
        ("And the ferry to town?", "The ferry to town does cost four crowns."),
        ("What is tea?", "Tea and cake are four crowns."),
    ]

    assert _check(pairs) == [("0", "1", "contains_answer")]


def test_the_same_fact_in_almost_the_same_words_is_reported_both_ways() -> None:
    first = "the levy on goods is paid by the owner each year in may"
    pairs = [("Who?", first), ("By whom?", first.replace("each", "every")), ("What?", "tea")]

    assert _check(pairs) == [("0", "1", "same_fact"), ("1", "0", "same_fact")]


def test_another_number_makes_another_fact() -> None:
    text = "the levy on goods rises to {} percent in the coming year for all owners"
    pairs = [("a?", text.format("5.5")), ("b?", text.format(6)), ("c?", text.format(6) + " too")]

    assert [(own, other) for own, other, _ in _check(pairs)] == [("1", "2"), ("2", "1")]


@pytest.mark.slow
def test_restatements_are_found_by_the_bundled_encoder() -> None:
    pairs = [
        ("What is the penalty for speeding?", "It is considered an offence."),
        ("What follows from ignoring signs?", "It constitutes an offence."),
        ("Where does one give way?", "At every side road without a sign."),
    ]

    assert _check(pairs, BiEncoderScorer()) == [("0", "1", "same_fact"), ("1", "0", "same_fact")]
