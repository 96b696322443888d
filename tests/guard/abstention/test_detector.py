"""The bundled detector, published rules by name, and what the guard itself says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.adapters.langchain import Replies
from knowgate.guard import Reason
from knowgate.guard.abstention import AbstentionDetector, Citation
from knowgate.guard.abstention.detector import FEATURE_NAMES, features, load_rule
from knowgate.guard.abstention.reading import read_citation, read_reply
from tests.support.hostile import OTHERS, TEXTS
from tests.support.tables import table

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
    for reply, found in table(__file__, "uaqfact refuses exactly as coded"):
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


_DOMAINS = ("BTT", "CPF")
_SMOLLM2 = Path(__file__).with_name("smollm2_replies.jsonl")


@pytest.fixture(scope="module")
def logs(shared_data: Path) -> dict[str, list[dict[str, Any]]]:
    folder = shared_data / "policybench" / "gpt-4o_runs"
    return {
        domain: [
            json.loads(line)
            for path in sorted(folder.glob(f"{domain}_*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        for domain in _DOMAINS
    }


def _kappa(found: list[bool], expected: list[bool]) -> float:
    a, b = np.asarray(found), np.asarray(expected)
    chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    return float(((a == b).mean() - chance) / (1 - chance))


def _labels(rows: list[dict[str, Any]]) -> list[bool]:
    return [row["abstained"] == "yes" for row in rows]


def _matrix(rows: list[dict[str, Any]], with_citation: bool) -> np.ndarray[Any, Any]:
    found = [
        features(
            *read_reply(row["response"], row["citation"] if with_citation else Citation.UNKNOWN)
        )
        for row in rows
    ]
    return np.asarray([[f[name] for name in FEATURE_NAMES] for f in found])


@pytest.mark.slow
@pytest.mark.parametrize("with_citation", [True, False])
def test_weights_fitted_on_one_domain_agree_with_the_judge_on_the_other(
    logs: dict[str, list[dict[str, Any]]], with_citation: bool
) -> None:
    from sklearn.linear_model import LogisticRegression

    found: list[bool] = []
    expected: list[bool] = []
    for seen, unseen in (_DOMAINS, _DOMAINS[::-1]):
        model = LogisticRegression(max_iter=2_000)
        model.fit(_matrix(logs[seen], with_citation), _labels(logs[seen]))
        found += model.predict(_matrix(logs[unseen], with_citation)).tolist()
        expected += _labels(logs[unseen])

    assert _kappa(found, expected) >= 0.95
    answered = [flag for flag, label in zip(found, expected, strict=True) if not label]
    assert np.mean(answered) <= 0.02


@pytest.mark.parametrize("domain", _DOMAINS)
def test_the_bundled_weights_are_those_of_these_logs(
    logs: dict[str, list[dict[str, Any]]], domain: str
) -> None:
    rows = logs[domain]

    verdicts = AbstentionDetector().detect_many(
        [row["response"] for row in rows], citations=[row["citation"] for row in rows]
    )

    assert _kappa([verdict.abstained for verdict in verdicts], _labels(rows)) >= 0.94
    gap = np.mean([verdict.probability for verdict in verdicts]) - np.mean(_labels(rows))
    assert abs(gap) < 0.02


@pytest.mark.parametrize(("half", "least"), [("seen", 0.97), ("held_out", 0.96)])
def test_verdicts_on_a_small_models_replies_agree_with_labels_set_by_hand(
    half: str, least: float
) -> None:
    lines = _SMOLLM2.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["half"] == half]

    verdicts = AbstentionDetector().detect_many([row["reply"] for row in rows])

    assert len(rows) == 150
    found = [verdict.abstained for verdict in verdicts]
    labels = [row["abstained"] for row in rows]
    assert _kappa(found, labels) >= least
    assert not any(flag and not label for flag, label in zip(found, labels, strict=True))
