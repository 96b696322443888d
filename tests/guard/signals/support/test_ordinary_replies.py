"""Replies as models write them: what says the same passes, what does not is held back."""

from __future__ import annotations

import pytest

from knowgate.guard import SignalError
from knowgate.guard.signals.injection import gives_orders
from knowgate.guard.signals.support import SupportCheck
from tests.support.tables import table

CHECK = SupportCheck()
PASSAGES = table(__file__, "passages")


@pytest.mark.parametrize(
    "reply",
    table(__file__, "what says the same passes"),
)
def test_what_says_the_same_passes(reply: str) -> None:
    found = CHECK.check(reply, PASSAGES)
    assert found.value >= 0.5, [one.missing for one in found.sentences]


@pytest.mark.parametrize(
    "reply",
    [
        "Employees get 27 vacation days per year [1].",
        "Gift cards are refundable:",
        "Gift cards are refundable.",
        "The fee is 900 euros?",
        "The deal was worth $1.65 million.",
        "In 1921, Marie Curie won the Nobel Prize in Chemistry.",
        # What the sentence beside it has.
        "The north bridge is 60 m long and was built by Anna Lee in March 1990.",
        "The north bridge is 40 m long and was built by Boris Lee in March 1990.",
        "The north bridge is 40 m long and was built by Anna Lee in March 1995.",
        "The north bridge is 40 m long and was built by Anna Lee in May 1990.",
        "The match was seen by 4.9 million people at home.",
    ],
)
def test_what_says_something_else_is_found(reply: str) -> None:
    assert CHECK.check(reply, PASSAGES).value < 0.5


def test_a_reply_that_is_too_long_is_not_passed_unread() -> None:
    with pytest.raises(SignalError, match="200,000"):
        CHECK.check(" " * 200_000 + "The secret fee is 999 dollars.", PASSAGES)


@pytest.mark.parametrize("text", ["." * 60_000 + "a", "\n" * 60_000, " \n" * 30_000, "?!" * 30_000])
def test_odd_texts_are_read(text: str) -> None:
    CHECK.check(text, [text])
    gives_orders(text)
