"""The bundled detector, published rules by name, and what the guard itself says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.adapters.langchain import Replies
from knowgate.guard import Reason
from knowgate.guard.abstention import AbstentionDetector, Citation
from knowgate.guard.abstention.detector import load_rule
from knowgate.guard.abstention.reading import read_citation
from tests.support.hostile import OTHERS, TEXTS

_DETECTOR = AbstentionDetector()
_LINES = Path(__file__).with_name("replies.jsonl").read_text(encoding="utf-8").splitlines()
# Written by hand, in English and Chinese.
_ABSTAINS: dict[str, bool] = {row["reply"]: row["abstains"] for row in map(json.loads, _LINES)}
_PIECES = list(_ABSTAINS)
_REPLIES = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(_PIECES), max_size=4).map(" ".join),
    st.lists(st.sampled_from(["no", "not", "the context", "do", "specific", "没有", "'", "{"]))
    .map(" ".join),
)  # fmt: skip


def test_abstentions_are_told_from_real_answers() -> None:
    found = {reply: _DETECTOR.detect(reply).abstained for reply in _PIECES}

    assert found == _ABSTAINS


@pytest.mark.slow
@given(reply=_REPLIES)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_any_text_gets_the_same_probability_each_time(reply: str) -> None:
    verdict = _DETECTOR.detect(reply)

    assert 0 <= verdict.probability <= 1
    assert verdict.abstained == (verdict.probability >= _DETECTOR.model.threshold)
    assert _DETECTOR.detect(reply) == verdict


@given(
    reply=_REPLIES, before=st.text(" \t\r\n\u3000", max_size=5), after=st.text(" \n", max_size=5)
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_surrounding_whitespace_and_curly_quotes_change_nothing(
    reply: str, before: str, after: str
) -> None:
    curly = reply.replace("'", "’")

    if not reply.lstrip().startswith(("{", "`")):
        assert _DETECTOR.detect(before + curly + after) == _DETECTOR.detect(reply)
    assert _DETECTOR.detect(before + reply + after) == _DETECTOR.detect(reply)


def test_a_hostile_reply_gets_a_verdict() -> None:
    for reply in TEXTS + OTHERS:
        verdict = _DETECTOR.detect(reply, citation=reply)

        assert 0 <= verdict.probability <= 1


@pytest.mark.parametrize(
    "piece", ["x", "no ", "the context does not ", "没有任何关于", "i can not provide ", "{", "`"]
)
def test_a_megabyte_is_read_and_keeps_what_it_opens_with(piece: str) -> None:
    huge = piece * (1_000_000 // len(piece))

    assert 0 <= _DETECTOR.detect(huge).probability <= 1
    assert _DETECTOR.detect(" " * 1_000_000 + "I don't know." + "\n" * 1_000_000).abstained


@pytest.mark.slow
def test_a_fence_full_of_blank_lines_is_read_in_linear_time() -> None:
    blank = "```json " + "\n" * 199_000 + "x"

    assert not _DETECTOR.detect(blank).abstained


def test_the_citation_of_a_json_reply_is_read() -> None:
    reply = {"response": "The fee is not mentioned. Fees are paid at the counter.", "citation": 0}
    cited = _DETECTOR.detect(json.dumps(reply)).probability
    uncited = _DETECTOR.detect(json.dumps({**reply, "citation": "no citation"})).probability

    assert uncited > cited
    assert cited == _DETECTOR.detect(reply["response"], citation=0).probability  # type: ignore[arg-type]


def test_a_batch_equals_single_calls() -> None:
    citations = [None, 3, "no citation", ["a"], -1] * (len(_PIECES) // 5 + 1)
    citations = citations[: len(_PIECES)]

    found = _DETECTOR.detect_many(_PIECES, citations=citations)

    assert found == [
        _DETECTOR.detect(piece, citation=citation)
        for piece, citation in zip(_PIECES, citations, strict=True)
    ]
    assert _DETECTOR.detect_many(_PIECES) == [_DETECTOR.detect(piece) for piece in _PIECES]


def test_weights_from_a_file_are_used_and_change_the_fingerprint(tmp_path: Path) -> None:
    timid = _DETECTOR.model.model_copy(update={"threshold": 0.999_999})
    (tmp_path / "weights.json").write_text(timid.model_dump_json(), encoding="utf-8")

    loaded = AbstentionDetector(tmp_path / "weights.json")

    assert not loaded.detect("I do not know.").abstained
    assert loaded.fingerprint != _DETECTOR.fingerprint


_UNIKNOW_WORDS = (
    "unanswerable", "unknown", "no known", "not known", "do not know", "uncertain", "unclear",
    "no scientific evidence", "no definitive answer", "no right answer", "no concrete answer",
    "no public information", "debate", "impossible to know", "impossible to answer",
    "difficult to predict", "not sure", "irrelevant", "not relevant",
)  # fmt: skip


def test_uniknow_finds_each_of_its_words_in_any_case() -> None:
    for word in _UNIKNOW_WORDS:
        verdict = load_rule("uniknow").detect(f"Well, this is {word.upper()} here.")

        assert (verdict.abstained, verdict.probability) == (True, 1.0)


@pytest.mark.parametrize("reply", ["", "I don't know.", "The context does not say.", "Paris"])
def test_uniknow_misses_what_its_list_does_not_hold(reply: str) -> None:
    verdict = load_rule("uniknow").detect(reply)

    assert (verdict.abstained, verdict.probability) == (False, 0.0)


def test_uaqfact_refuses_exactly_as_coded() -> None:
    for reply, found in [
        ("There is no such team.", True),
        ("He has no brother.", True),
        ("Not a team I know", True),
        ("##None##", True),
        ("#none", True),
        ("nonetheless", True),
        ("He is cannot aware", True),  # "not a" inside "cannot aware"
        ("I'm sorry.", True),
        ("I don't know", True),
        ("unknown", True),
        ("It is unclear.", True),
        ("I don’t", False),
        ("unable to answer", False),
        ("Norway", False),
        ("没有合适的答案", False),
        ("Paris Saint-Germain", False),
    ]:
        verdict = load_rule("uaqfact").detect(reply, citation=None)

        assert (verdict.abstained, verdict.probability) == (found, float(found))


def test_nothing_cited_in_many_spellings() -> None:
    values: list[Any] = [
        None,
        "",
        "  ",
        "no citation",
        "No citation.",
        "No Citations",
        "None",
        "N/A",
        "null",
        "-1",
        -1,
        -0.5,
        float("nan"),
        [],
        {},
        (),
        [None],
        ["no citation"],
        False,
        b"",
        "无",
        "沒有引用",
    ]
    for value in values:
        assert read_citation(value) is Citation.NONE


@pytest.mark.parametrize("value", [0, 3, 1.0, "0", "Fact 3", [0], ["", "a"], {"id": 3}, True])
def test_something_cited_in_many_spellings(value: Any) -> None:
    assert read_citation(value) is Citation.CITED


def test_values_of_other_kinds_say_nothing() -> None:
    assert read_citation(object()) is Citation.UNKNOWN
    assert read_citation([object(), None]) is Citation.UNKNOWN
    nested: list[Any] = []
    nested.append(nested)
    assert read_citation(nested) is Citation.UNKNOWN


ANSWERING = {
    Reason.SUFFICIENT_CONTEXT,
    Reason.CONFLICT_FOLLOWS_CONTEXT,
    Reason.CONFLICT_SHOWS_BOTH,
    Reason.CONFIDENT_MEMORY,
    Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT,
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("reason", sorted(set(Reason) - ANSWERING))
def test_every_bundled_reply_is_an_abstention(reason: Reason, language: str) -> None:
    reply = Replies(language=language).to(reason)  # type: ignore[arg-type]
    assert AbstentionDetector().detect(reply).abstained


@pytest.mark.parametrize(
    "reply",
    [
        "We cannot search your bag without consent; an officer must be present.",
        "I found nothing wrong: the fee is $5.",
        "You cannot check in before 3 pm.",
        "用户无法检索密码，请联系客服重置。",
    ],
)
def test_what_only_sounds_like_it_is_an_answer(reply: str) -> None:
    assert not AbstentionDetector().detect(reply).abstained
