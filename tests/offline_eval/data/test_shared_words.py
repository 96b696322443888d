from __future__ import annotations

import pytest

from knowgate.offline_eval.data._shared_words import mean_shared_words, shared_words


@pytest.mark.parametrize(
    ("question", "passage", "share"),
    [
        ("How do I install Borg?", "Installing: Borg needs Python.", 1.0),
        ("My disk is full, what now?", "Free the space of the disk.", 1 / 3),
        ("Is it for you?", "Nothing but function words is asked.", None),
        ("如何安装？", "安装方法", 0.5),
    ],
)
def test_content_words_are_compared_without_their_endings(
    question: str, passage: str, share: float | None
) -> None:
    assert shared_words(question, passage) == (None if share is None else pytest.approx(share))


def test_the_mean_is_over_questions_with_content_words() -> None:
    assert (
        mean_shared_words([("Who is it?", "a"), ("red door", "The door"), ("lock", "locks")])
        == 0.75
    )
    assert mean_shared_words([]) is None
