"""Declining and being right: the published rules exactly, and the strict ones."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.data.graph.items import UaqItem
from knowgate.offline_eval.data.graph.layout import UaqData
from knowgate.offline_eval.suites.uaqfact._absence import (
    published_hit,
    published_refusals,
    strict_hit,
    strict_refusals,
)
from knowgate.offline_eval.suites.uaqfact._asking import UaqRow
from knowgate.offline_eval.suites.uaqfact._scoring import verdicts
from tests.offline_eval.data.graph.layout_questions import AB, DILEMMA, item
from tests.support.tables import table

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


@pytest.mark.slow
def test_the_published_rules_are_reproduced_on_five_thousand_replies(shared_data: Path) -> None:
    items = [one for one in UaqData.read(shared_data / "uaqfact").items if not one.unanswerable]
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


def test_what_says_that_there_is_no_answer_declines() -> None:
    for reply in [
        *["##None##", "None.", "##None##。", "没有合适的答案", "不知道", "无", "N/A", "不存在"],
        *["There’s no such person.", "No one.", "Nobody held it.", "Neither.", "空集", "没有"],
        *["Neither option is correct.", "None of the above", "I am unable to answer."],
        *["It doesn’t exist.", "There is no suitable answer.", "无人", "两者都不对，均不正确"],
        *["They have no intersection, so there is no answer.", "Nothing"],
        *["Both are wrong.", "There isn't one.", "There are none.", "So my answer is: None"],
        *["X did not hold any position in 1987.", "He held no position between 1960 and 1965."],
        *["The company had not been founded yet.", "He had already died by then.", "no", "Nil"],
        *["There was no head coach at that time.", "No record of this exists.", "As said, no one."],
        *["No head of government of the United States was the father of Tolui.", "∅"],
        *["The premise of the question is incorrect.", "The intersection is empty.", "Impossible."],
        *["Not Paris and not Rome.", "It is neither a novel nor a film.", "Does not exist."],
        *["The answer is nobody.", "The answer is that no such person exists.", "**None**"],
        *["There doesn't appear to be such a person.", "It references neither.", "A: ##None##"],
        *["没有这个人", "沒有這樣的人", "没有符合条件的人", "交集为空", "查无此人", "答案是：无"],
        *["他在1950年没有担任任何职务", "他当时还没有出生", "当时该公司尚未成立", "无解"],
        *[
            "既不是A也不是B",
            "既非小说也非电影",
            "前提错误",
            "这个问题的前提有误",
            "＃＃Ｎｏｎｅ＃＃",
        ],
        *["没有人与之相符", "两个选项都没有被引用", "没有哪位行政首脑是拖雷的父亲。"],
    ]:
        assert strict_refusals([reply]) == [True]


def test_what_names_an_answer_does_not_decline() -> None:
    for reply in [
        *["Joe Biden", "北京", "Not Joe Biden, but Ann Li.", "不是甲，而是乙", "无锡市", "1999"],
        *["No One Knows, by Queens", "Nothing Compares 2 U", "None other than Ann Li"],
        *["There was no war in 1999, and Ann Li was mayor.", "没有人不知道爱因斯坦"],
        *["None Shall Escape", "None But the Lonely Heart", "Nothing in Common", "No Such Agency"],
        *["Neither Here nor There", "The Empty Set (film)", "Nowhere in Africa", "No Man's Land"],
        *["False Dilemma Records", "No Common Ground", "Nonesuch Press", "Nobody Speaks"],
        *["Not Guilty", "Dr. No", "No. 1 Squadron RAF", "There Is No Evil", "No Time to Die"],
        *["Washington, D.C.", "3,500,000", "1. Ann Li\n2. Bo Ek", "Ann Li, who had no children."],
        *["It was not Joe Biden but Donald Trump.", "Inter Milan. He had no other club."],
        "Inter Milan. He did not play for any other team in that time.",
        "First, Bo did not hold any office. Second, Ann did. Answer: Ann Li",
        "No child of Bo's is on the list. So the answer is **Ann Li**, the only one left.",
        *[
            "无锡",
            "無錫",
            "无间道",
            "无人区玫瑰",
            "无人生还",
            "《无人驾驶》",
            "不存在的女儿",
            "没人要的孩子",
        ],
        *["没有人是一座孤岛", "不丹", "否定", "是李四，不是张三", "除了李四，没有人符合条件。"],
        *["答案是李四，因为张三没有担任任何职务。", "张三没有担任任何职务，所以答案是李四。"],
    ]:
        assert strict_refusals([reply]) == [False]


@settings(deadline=None)
@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_reply_has_a_verdict(replies: list[str]) -> None:
    assert len(strict_refusals(replies)) == len(published_refusals(replies)) == len(replies)


QUESTION = item("1", AB, DILEMMA, answer="Star Trek", options=("Star Trek", "a review"))


@pytest.mark.parametrize(
    ("reply", "published", "strict"),
    table(__file__, "echoing both options is no answer"),
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


@pytest.mark.parametrize(
    ("label", "reply", "right"),
    [
        ("Nobody Knows", "It is Nobody Knows.", (False, True)),
        ("No Answer", "No Answer", (False, True)),
        ("No Answer", "There is no answer.", (True, False)),
        ("Ann Li", "I don't know, perhaps Ann Li.", (True, False)),
    ],
)
def test_an_answer_that_sounds_like_a_refusal_is_one(
    label: str, reply: str, right: tuple[bool, bool]
) -> None:
    asked = item("1", AB, answer=label)
    row = UaqRow(
        row_id="1",
        system="model",
        form="question",
        key=asked.key,
        language="en",
        type=asked.type,
        kind=asked.kind,
        response=reply,
    )
    found = verdicts([row], {asked.key: asked})["1"]
    assert (found.refused, found.correct) == right


def test_the_wrong_option_that_holds_the_right_one_is_not_right() -> None:
    question = item("1", AB, DILEMMA, answer="New York", options=("New York", "New York City"))
    assert not strict_hit(question, "New York City")
    assert strict_hit(question, "New York")
    inside = item("1", AB, DILEMMA, answer="war", options=("war", "Star Wars"))
    assert not strict_hit(inside, "war or Star Wars")


@pytest.mark.parametrize(
    ("label", "reply", "right"),
    table(__file__, "whole words in any script"),
)
def test_whole_words_in_any_script(label: str, reply: str, right: bool) -> None:
    assert strict_hit(item("1", AB, answer=label), reply) is right
