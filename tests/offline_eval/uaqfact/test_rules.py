"""Declining and being right: the published rules exactly, and the strict ones."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.uaqfact import (
    UaqItem,
    published_hit,
    published_refusals,
    read_layout,
    strict_hit,
    strict_refusals,
)
from tests.offline_eval.uaqfact.questions import AB, DILEMMA, item

# Read off the published description anew: one search after another, in the reply as it is
# and in its lower case.
ANYWHERE = ("there is no", " no ", "non-existent", "not a", "#none", "none")
WORDS = "not no sorry don't doesn't didn't can't couldn't won't wouldn't isn't unknown unclear"
PIECES = [
    *["There is no", "there IS NO", " no ", "No.", "not a", "note", "#none", "None", "##None##"],
    *["nonexistent", "non-existent", "sorry", "don't", "don’t", "UNKNOWN", "Unclear.", "knot"],
    *["没有", "不知道", "no，", "没有no答案", "北京", "Joe Biden", "cannot", "İsn't", "ſorry"],
    *["UN\u212aNOWN", "1999", "–", "\n", "  ", "is", "a", "the", "答案是", "Star Trek"],
]


def refuses(reply: str) -> bool:
    for part in ANYWHERE:
        if re.search(re.escape(part), reply, re.IGNORECASE):
            return True
    lowered = reply.lower()
    for word in WORDS.split():
        for match in re.finditer(re.escape(word), lowered):
            before = lowered[match.start() - 1 : match.start()]
            after = lowered[match.end() : match.end() + 1]
            if not re.match(r"\w", before) and not re.match(r"\w", after):
                return True
    return False


def test_the_published_rules_are_reproduced_on_five_thousand_replies(shared_data: Path) -> None:
    items = [one for one in read_layout(shared_data / "uaqfact").items if not one.unanswerable]
    rng = random.Random(7)
    asked: list[UaqItem] = []
    replies: list[str] = []
    for _ in range(5000):
        one = rng.choice(items)
        pieces = rng.choices(PIECES, k=rng.randint(0, 7))
        if rng.random() < 0.4:
            label = rng.choice(one.answers).label
            pieces.insert(0, rng.choice([label, label.upper(), label.lower()]))
        asked.append(one)
        replies.append(rng.choice([" ", ""]).join(pieces))
    assert published_refusals(replies) == [refuses(reply) for reply in replies]
    hits = [published_hit(one, reply) for one, reply in zip(asked, replies, strict=True)]
    folded = [
        any(answer.label.lower() in reply.lower() for answer in one.answers)
        for one, reply in zip(asked, replies, strict=True)
    ]
    assert hits == folded
    assert 1000 < sum(hits) < 4000


@pytest.mark.parametrize(
    "reply",
    [
        *["##None##", "None.", "##None##。", "没有合适的答案", "不知道", "无", "N/A", "不存在"],
        *["There’s no such person.", "No one.", "Nobody held it.", "Neither.", "空集", "没有"],
        *["Neither option is correct.", "None of the above", "I am unable to answer."],
        *["It doesn’t exist.", "There is no suitable answer.", "无人", "两者都不对，均不正确"],
        *["They have no intersection, so there is no answer.", "Nothing"],
    ],
)
def test_what_says_that_there_is_no_answer_declines(reply: str) -> None:
    assert strict_refusals([reply]) == [True]


@pytest.mark.parametrize(
    "reply",
    [
        *["Joe Biden", "北京", "Not Joe Biden, but Ann Li.", "不是甲，而是乙", "无锡市", "1999"],
        *["No One Knows, by Queens", "Nothing Compares 2 U", "None other than Ann Li"],
        *["There was no war in 1999, and Ann Li was mayor.", "没有人不知道爱因斯坦"],
    ],
)
def test_what_names_an_answer_does_not_decline(reply: str) -> None:
    assert strict_refusals([reply]) == [False]


@settings(deadline=None)
@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_reply_has_a_verdict(replies: list[str]) -> None:
    assert len(strict_refusals(replies)) == len(published_refusals(replies)) == len(replies)


QUESTION = item("1", AB, DILEMMA, answer="Star Trek", options=("Star Trek", "a review"))


@pytest.mark.parametrize(
    ("reply", "published", "strict"),
    [
        ("Star Trek", True, True),
        ("star trek.", True, True),
        ("Star Trek or a review", True, False),
        ("Star Trek, not a review", True, True),
        ("Not Star Trek, but a review", True, False),
        ("a review", False, False),
        ("Star Trekking", True, False),
        ("", False, False),
    ],
)
def test_echoing_both_options_is_no_answer(reply: str, published: bool, strict: bool) -> None:
    assert published_hit(QUESTION, reply) is published
    assert strict_hit(QUESTION, reply) is strict


def test_an_option_within_the_other_is_not_named_by_it() -> None:
    question = item("1", AB, DILEMMA, answer="New York City", options=("New York City", "New York"))
    assert strict_hit(question, "New York City")
    assert not strict_hit(question, "New York City or New York")


@pytest.mark.parametrize(("reply", "right"), [("是北京。", True), ("不是北京", False)])
def test_chinese_answers_need_no_spaces_around(reply: str, right: bool) -> None:
    assert strict_hit(item("1", AB, answer="北京"), reply) is right
