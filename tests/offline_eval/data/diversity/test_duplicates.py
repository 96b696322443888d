"""Duplicates, exact and near."""

from __future__ import annotations

from knowgate.offline_eval.data.diversity.uniqueness import TooNear, remove_duplicates


def test_equal_but_for_spelling_is_a_duplicate_of_the_first() -> None:
    texts = ["Who pays?", "When?", "  who PAYS ", "when", "Who pays whom?"]

    left, found = remove_duplicates(texts)

    assert left == [0, 1, 4]
    assert found == [
        TooNear(2, 0, 0.0, exact=True),
        TooNear(3, 1, 0.0, exact=True),
    ]


def test_the_same_words_in_another_order_are_near_duplicates() -> None:
    texts = [
        "Who sang the anthem at Bowl 50?",
        "Who sang at Bowl 50 the anthem?",
        "Who sang the anthem at Bowl 51?",
    ]

    left, found = remove_duplicates(texts)

    assert left == [0, 2]
    assert [(one.index, one.of, one.exact, one.uniqueness) for one in found] == [(1, 0, False, 0.0)]


def test_another_number_makes_another_question() -> None:
    long = "What is the contribution rate for employees above the age of {} in the public service"

    left, found = remove_duplicates([long.format(55), long.format(60), long.format("55")])

    assert left == [0, 1]
    assert [(one.index, one.of) for one in found] == [(2, 0)]


def test_long_texts_that_differ_in_a_common_number_are_no_duplicates() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    texts = [f"Case {n}: 5 or 7?" for n in "abcdefgh" * 20]
    texts = list(dict.fromkeys(f"{text} {at * 'x'}" for at, text in enumerate(texts)))

    left, found = remove_duplicates([f"{words} 5", f"{words} 7", f"{words} 7 or", *texts])

    assert left[:2] == [0, 1]
    assert (found[0].index, found[0].of, found[0].exact) == (2, 1, False)
