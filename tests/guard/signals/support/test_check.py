"""What the check of a reply finds, by hand and by properties."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard import InputError, SignalError
from knowgate.guard.signals.support import SentenceSupport, Support, SupportCheck
from knowgate.guard.signals.support.reading import read_sentences, sentence_spans, stem
from tests.support.tables import table

PASSAGES = [
    "The library is in Mill Street. It opens at nine and closes at five on weekdays.",
    "Claims are paid within five days. Ms. Tan, who is 40, is 3 years older than Mr. Lee.",
    "理赔款在五天内支付。图书馆位于磨坊街。",
]
CHECK = SupportCheck()


def faults(reply: str, question: str = "") -> list[str]:
    found = CHECK.check(reply, PASSAGES, question)
    return [missing for one in found.sentences for missing in one.missing]


@pytest.mark.parametrize(
    "reply",
    table(__file__, "what stands in the passages is supported"),
)
def test_what_stands_in_the_passages_is_supported(reply: str) -> None:
    found = CHECK.check(reply, PASSAGES)
    assert found.value >= 0.5, found


@pytest.mark.parametrize(
    ("reply", "missing"),
    table(__file__, "what no passage says is named"),
)
def test_what_no_passage_says_is_named(reply: str, missing: list[str]) -> None:
    found = faults(reply)
    assert set(missing) <= set(found), found
    assert CHECK.check(reply, PASSAGES).value <= 0.2


def test_a_short_answer_must_stand_where_the_question_is_answered() -> None:
    passages = ["Apple bought the firm in 2014.", "Facebook is a web site with many readers."]
    asked = "Who bought the firm in 2014?"
    assert CHECK.check("Apple.", passages, asked).value == 1.0
    assert CHECK.check("Facebook.", passages, asked).sentences[0].missing == (
        "answer beside the question",
    )
    assert CHECK.check("Facebook.", passages).value == 1.0


@pytest.mark.parametrize(
    "reply",
    table(__file__, "sentences that say nothing are not judged"),
)
def test_sentences_that_say_nothing_are_not_judged(reply: str) -> None:
    found = CHECK.check(reply, PASSAGES)
    assert found.value == 1.0
    assert all(one.support is None for one in found.sentences)


def test_the_share_of_a_sentence_is_as_computed_by_hand() -> None:
    # "red" and "boat" stand in the sentence, "harbour" in the next one (.9), "sinks" nowhere.
    found = CHECK.check("Red boat, harbour sinks.", ["A red boat. A harbour."])
    assert found.value == pytest.approx((1 + 1 + 0.9 + 0) / 4)


def test_a_sentence_is_carried_by_the_text_that_has_most_of_it() -> None:
    reply = "Hi! Claims are paid within 5 days."
    first, second = CHECK.check(reply, PASSAGES).sentences
    assert first.support is None
    assert (second.passage, reply[second.start :]) == (1, "Claims are paid within 5 days.")
    assert PASSAGES[1][second.passage_start : second.passage_end] == (
        "Claims are paid within five days."
    )


class Entails:
    def __init__(self, value: object) -> None:
        self.value = value

    def entails(self, premise: str, hypothesis: str) -> bool | float:
        return self.value  # type: ignore[return-value]


def test_an_entailment_model_counts_half() -> None:
    check = SupportCheck(Entails(0.5))
    assert check.check("Claims are paid within five days.", PASSAGES).value == 0.75
    assert check.fingerprint != CHECK.fingerprint
    with pytest.raises(SignalError, match="support"):
        SupportCheck(Entails(2.0)).check("Claims are paid within five days.", PASSAGES)
    with pytest.raises(InputError, match="entails"):
        SupportCheck(3)  # type: ignore[arg-type]


def test_abbreviations_and_lists_end_no_sentence() -> None:
    text = "1. Dr. Lee, e.g. at St. Mary's, pays 3.5 euros! Then?\n- It ends. 好的。再见！"
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "1. Dr. Lee, e.g. at St. Mary's, pays 3.5 euros!",
        "Then?",
        "- It ends.",
        "好的。",
        "再见！",
    ]


@given(st.text(max_size=400))
def test_sentences_are_a_partition_of_what_is_written(text: str) -> None:
    spans = list(sentence_spans(text))
    assert all(a < b for a, b in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    outside = [*text]
    for a, b in spans:
        outside[a:b] = [" "] * (b - a)
    assert not "".join(outside).strip()


@given(st.text(alphabet="ab. 1!?\n。", max_size=120), st.integers(0, 120))
def test_what_was_a_sentence_stays_one_when_the_reply_goes_on(text: str, cut: int) -> None:
    whole = list(sentence_spans(text))
    early = list(sentence_spans(text[:cut]))[:-1]
    assert early == whole[: len(early)]


@given(st.text(max_size=300), st.lists(st.text(max_size=200), max_size=4), st.text(max_size=80))
def test_any_text_has_a_support(reply: str, passages: list[str], question: str) -> None:
    found = CHECK.check(reply, passages, question)
    assert 0.0 <= found.value <= 1.0
    for one in found.sentences:
        assert reply[one.start : one.end].strip()
        if one.passage is not None:
            assert 0 <= one.passage_start < one.passage_end


@given(
    st.lists(st.sampled_from(["It is 5 km.", "We pay.", "Hello!", "Not so in May."]), max_size=5)
)
def test_sentences_are_judged_each_by_itself(sentences: list[str]) -> None:
    whole = CHECK.check(" ".join(sentences), PASSAGES)
    alone = [CHECK.check(one, PASSAGES).sentences[0] for one in sentences]
    assert [one.support for one in whole.sentences] == [one.support for one in alone]


def test_words_of_one_family_are_equal() -> None:
    assert stem("carried") == stem("carries")
    assert stem("wrote") == stem("written")
    assert stem("Café".casefold()) == stem("cafe")
    assert read_sentences("") == ()


def test_without_the_reply_nothing_that_was_written_is_told() -> None:
    found = CHECK.check("Secret Wong pays 77 euros.", PASSAGES)
    assert "Wong" not in json.dumps(found.to_dict())
    assert found.to_dict("Secret Wong pays 77 euros.")["sentences"][0]["text"].startswith("Secret")
    assert Support.of([SentenceSupport(0, 1, None)]).value == 1.0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_replaced_answers_are_found_in_web_snippets(language: str, shared_data: Path) -> None:
    found = wrong = cases = 0
    lines = (
        (shared_data / "rgb" / f"{language}_fact.first_half.jsonl").read_text("utf-8").splitlines()
    )
    for row in map(json.loads, lines):
        answer = row["answer"]
        while not isinstance(answer, str):
            answer = answer[0]
        if not row["positive_wrong"]:
            continue
        cases += 1
        found += CHECK.check(f"{answer}.", row["positive_wrong"][:3], row["query"]).value < 0.5
        wrong += CHECK.check(f"{answer}.", row["positive"][:3], row["query"]).value < 0.5
    assert found >= 0.9 * cases
    assert wrong <= 0.06 * cases


@pytest.mark.parametrize("language", ["en", "zh"])
def test_changed_figures_are_found(language: str, shared_data: Path) -> None:
    data = json.loads((shared_data / "xquad" / f"xquad.{language}.even.json").read_text("utf-8"))[
        "data"
    ]
    faithful = changed = cases = numbers = 0
    for article in data[::3]:
        passages = [one["context"] for one in article["paragraphs"]][:5]
        for passage in passages:
            for sentence in read_sentences(passage):
                if len(sentence.items) < 5:
                    continue
                cases += 1
                faithful += CHECK.check(sentence.text, passages).value >= 0.5
                if figure := re.search(r"\d{2,}", sentence.text):
                    other = str(int(figure.group()) + 7)
                    text = sentence.text.replace(figure.group(), other, 1)
                    numbers += 1
                    changed += CHECK.check(text, passages).value >= 0.5
    assert faithful >= 0.97 * cases
    assert changed <= 0.05 * numbers
