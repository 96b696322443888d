"""A question in a language that the scorer does not know: a reason of its own, no numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Decision, Guard, Policy, Reason, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.errors import UnsupportedLanguageError
from knowgate.guard.signals.relevance import LexicalScorer, load_scorer
from knowgate.guard.text import (
    foreign_language,
    in_other_language,
    is_readable,
    language_of,
    latin_share,
)
from tests.support.fakes import FakeEstimator, FakeSetScorer
from tests.support.guards import guard_with, policy_with
from tests.support.tables import table

CHINESE = "图书馆几点开门？"
Ask = Callable[[Guard], Decision]


def one(guard: Guard) -> Decision:
    return guard.decide(CHINESE, ["good"])


def batch(guard: Guard) -> Decision:
    known, asked = guard.decide_batch(["English", CHINESE], [["good"], ["good"]])
    assert known.relevance == 0.9
    return asked


def english_only(**changes: Any) -> Guard:
    scorer = FakeSetScorer({"good": 0.9}, unsupported=["图"])
    return guard_with(changes.pop("policy", policy_with()), scorer=scorer, **changes)


@pytest.mark.parametrize("ask", [one, batch])
def test_the_guard_abstains_and_says_why_without_measuring(ask: Ask) -> None:
    found = ask(english_only())
    assert (found.route, found.reason) == (Route.ABSTAIN, Reason.UNSUPPORTED_LANGUAGE)
    assert (found.relevance, found.raw_relevance, found.scores) == (None, None, (None,))
    assert found.failed_signals == ()
    assert found.kept == ()


@pytest.mark.parametrize("ask", [one, batch])
@pytest.mark.parametrize("on_error", ["follow_context", {"language": "follow_context"}])
def test_the_context_is_followed_where_that_is_configured(ask: Ask, on_error: Any) -> None:
    found = ask(english_only(on_error=on_error))
    assert (found.route, found.reason) == (Route.FOLLOW_CONTEXT, Reason.UNSUPPORTED_LANGUAGE)
    assert found.kept == (0,)


def test_a_context_that_may_not_be_followed_is_not() -> None:
    policy = policy_with(relevance_threshold=None)
    found = one(english_only(policy=policy, on_error={"language": "follow_context"}))
    assert found.reason is Reason.NEITHER_KNOWS  # relevance is not asked for at all


@pytest.mark.parametrize("ask", [one, batch])
def test_an_error_is_raised_where_that_is_configured(ask: Ask) -> None:
    with pytest.raises(UnsupportedLanguageError, match="language"):
        ask(english_only(on_error={"language": "raise"}))


def test_a_failing_signal_has_an_action_of_its_own() -> None:
    found = one(english_only(on_error={"relevance": "raise"}))
    assert found.reason is Reason.UNSUPPORTED_LANGUAGE


@pytest.mark.parametrize("answer", ["yes", None, 1])
def test_a_scorer_that_does_not_say_yes_or_no_fails(answer: Any) -> None:
    class Vague(FakeSetScorer):
        def supports(self, question: str) -> bool:
            said: bool = answer
            return said

    found = guard_with(scorer=Vague({"good": 0.9})).decide("q", ["good"])
    assert found.reason is Reason.RELEVANCE_FAILED


def test_a_scorer_that_breaks_on_one_question_fails_that_one_only() -> None:
    class Breaks(FakeSetScorer):
        def supports(self, question: str) -> bool:
            if question == "bad":
                raise RuntimeError(question)
            return True

    guard = guard_with(scorer=Breaks({"good": 0.9}))
    found = guard.decide_batch(["q", "bad"], [["good"], ["good"]])
    assert [d.reason for d in found] == [Reason.SUFFICIENT_CONTEXT, Reason.RELEVANCE_FAILED]


SUPPORTED = ["When?", "2 + 2 = ?", "Bibliothèque ?", "What does 图书馆 mean?", "Straße?"]
UNSUPPORTED = [
    CHINESE,
    "когда открывается",
    "متى تفتح المكتبة",
    "도서관은 언제 여나요",
    "🙂🙂🙂",
    "Où est la bibliothèque ?",
    "Wann öffnet die Bibliothek?",
    "\u200b",
]


@pytest.mark.parametrize("question", SUPPORTED)
def test_questions_that_may_be_english_are_supported(
    bi_encoder: BiEncoderScorer, question: str
) -> None:
    assert bi_encoder.supports(question)


@pytest.mark.parametrize("question", UNSUPPORTED)
def test_questions_that_the_embedded_model_cannot_read_are_not(
    bi_encoder: BiEncoderScorer, question: str
) -> None:
    assert not bi_encoder.supports(question)


def test_scorers_over_the_same_model_support_the_same(bi_encoder: BiEncoderScorer) -> None:
    others: list[Any] = [load_scorer("late_interaction"), load_scorer("sufficiency")]
    for question in SUPPORTED + UNSUPPORTED:
        for other in others:
            assert other.supports(question) is bi_encoder.supports(question), question


def test_the_bi_encoder_gives_no_number_for_a_chinese_question(bi_encoder: BiEncoderScorer) -> None:
    policy = Policy(scorer=bi_encoder.fingerprint, relevance_threshold=0.0)
    found = Guard(policy, scorer=bi_encoder, metrics=False).decide(CHINESE, ["图书馆九点开门。"])
    assert (found.relevance, found.reason) == (None, Reason.UNSUPPORTED_LANGUAGE)


def test_the_lexical_scorer_gives_a_meaningful_number_for_a_chinese_question(
    lexical: LexicalScorer,
) -> None:
    policy = Policy(scorer=lexical.fingerprint, relevance_threshold=0.2)
    guard = Guard(policy, scorer=lexical, metrics=False)
    found = guard.decide(CHINESE, ["图书馆九点开门。", "狗必须登记。"])
    assert found.route is Route.FOLLOW_CONTEXT
    assert found.scores[0] > found.scores[1]  # type: ignore[operator]


@given(st.text(max_size=80))
@settings(max_examples=20)
def test_a_share_is_one_or_there_are_no_letters(text: str) -> None:
    share = latin_share(text)
    assert share is None or 0.0 <= share <= 1.0


def test_half_of_the_letters_must_be_latin() -> None:
    assert latin_share("ab图书") == 0.5
    assert is_readable("ab图书", [1, 2, 3], 100, latin_only=True)
    assert not is_readable("ab图书馆", [1, 2, 3], 100, latin_only=True)
    assert is_readable("ab图书馆", [1, 2, 3], 100, latin_only=False)


def test_half_of_the_word_pieces_may_be_unknown() -> None:
    assert is_readable("q", [100, 1], 100, latin_only=True)
    assert not is_readable("q", [100, 100, 1], 100, latin_only=True)
    assert is_readable("q", [100], None, latin_only=True)
    assert not is_readable("q", [], None, latin_only=True)


# -- languages in Latin letters that are not English ---------------------------------

FOREIGN = {
    "german": ["Wie verlängere ich meinen Reisepass?", "Wer schrieb Faust?", "Wo ist das Rathaus"],
    "spanish": ["¿Puedo cancelar mi pedido?", "Como puedo renovar mi pasaporte"],
    "french": ["À quelle heure ouvre la bibliothèque ?", "Puis-je annuler ma commande ?"],
    "italian": ["Posso annullare il mio ordine?", "Chi ha scritto I promessi sposi?"],
    "portuguese": ["Onde fica a câmara municipal?", "Posso cancelar a minha encomenda?"],
    "dutch": ["Waar is het gemeentehuis?", "Wanneer moet ik belasting betalen?"],
    "polish": ["Gdzie znajduje się ratusz?", "Czy mogę anulować zamówienie?"],
}


@pytest.mark.parametrize("language", FOREIGN)
def test_a_question_in_a_known_language_is_told(language: str) -> None:
    assert [foreign_language(question) for question in FOREIGN[language]] == [language] * len(
        FOREIGN[language]
    )


@pytest.mark.parametrize(
    "question",
    table(__file__, "english questions with foreign words stay english"),
)
def test_english_questions_with_foreign_words_stay_english(question: str) -> None:
    assert foreign_language(question) is None


@pytest.mark.parametrize(("language", "least"), [("de", 0.93), ("es", 0.98)])
def test_translated_questions_are_not_scored_as_english(
    shared_data: Path, language: str, least: float
) -> None:
    asked = [question for _, question, _ in xquad(shared_data, language)]
    assert sum(map(bool, map(foreign_language, asked))) / len(asked) >= least


def test_few_english_questions_are_refused(shared_data: Path) -> None:
    asked = [question for _, question, _ in xquad(shared_data, "en")]
    for path in sorted((shared_data / "nq_open").glob("*.jsonl")):
        asked += [json.loads(line)["question"] for line in path.read_text("utf-8").splitlines()]
    for path in sorted((shared_data / "faq_pack").glob("*.jsonl")):
        rows = map(json.loads, path.read_text("utf-8").splitlines())
        asked += [row["question"] for row in rows if "question" in row]
    for path in sorted((shared_data / "policybench" / "questions").glob("*.json")):
        asked += [row["question"] for row in json.loads(path.read_text("utf-8"))["questions"]]
    refused = [question for question in asked if foreign_language(question)]
    assert len(asked) > 8000
    assert len(refused) <= 0.001 * len(asked), refused


def test_the_error_says_which_scorer_to_take() -> None:
    with pytest.raises(UnsupportedLanguageError, match="--scorer multilingual"):
        one(english_only(on_error={"language": "raise"}))


# -- questions in another language than their passages ------------------------------

ENGLISH = "The library is open from nine to five on weekdays, and it is closed on the first of May."
GERMAN = "Die Bibliothek ist werktags von neun bis fünf Uhr offen und am ersten Mai geschlossen."
OTHER_LANGUAGES = table(__file__, "other languages")


@pytest.mark.parametrize("question", OTHER_LANGUAGES)
async def test_an_abstention_says_that_the_question_is_in_another_language(question: str) -> None:
    guard = guard_with(policy_with(confidence_threshold=None))
    for found in (
        guard.decide(question, [ENGLISH, "42"]),
        await guard.adecide(question, [ENGLISH]),
        *guard.decide_batch([question], [[ENGLISH]]),
    ):
        assert (found.route, found.reason) == (Route.ABSTAIN, Reason.OTHER_LANGUAGE)


def test_another_language_changes_no_route() -> None:
    question = OTHER_LANGUAGES[3]
    follows = guard_with(scorer=FakeSetScorer(default=0.9)).decide(question, [ENGLISH])
    assert follows.reason is Reason.SUFFICIENT_CONTEXT
    knows = guard_with(estimator=FakeEstimator(default=1.0)).decide(question, [ENGLISH])
    assert knows.reason is Reason.CONFIDENT_MEMORY


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("When is the library open?", [ENGLISH]),
        ("When is the library open?", ["42", "A-7"]),  # of which nothing can be told
        ("Wann offen?", [ENGLISH]),
        ("opening hours library", [GERMAN]),
        ("Who wrote Der Name der Rose and Das Boot?", [ENGLISH]),
        ("what is the meaning of que sera sera", [ENGLISH]),
        ("who sings la vida es un carnaval", [ENGLISH]),
        ("Was heißt 'the library is open from nine to five'?", [ENGLISH]),
        ("What does 图书馆 mean in English?", [ENGLISH]),
        (OTHER_LANGUAGES[3], [GERMAN]),
        (OTHER_LANGUAGES[3], [ENGLISH, GERMAN]),
        ("1 + 1 = ?", [ENGLISH]),
        ("", [ENGLISH]),
    ],
)
def test_where_it_is_not_clear_it_is_no_other_language(question: str, passages: list[str]) -> None:
    assert not in_other_language(question, passages)


@pytest.mark.parametrize(
    ("language", "least"), [("de", 0.75), ("es", 0.93), ("ru", 0.95), ("zh", 0.9), ("ar", 0.95)]
)
def test_translated_questions_are_told_from_english_passages(
    shared_data: Path, language: str, least: float
) -> None:
    passages = {key: passage for key, _, passage in xquad(shared_data, "en")}
    own = {key: passage for key, _, passage in xquad(shared_data, language)}
    asked = [(key, question) for key, question, _ in xquad(shared_data, language)]
    told = [in_other_language(question, [passages[key]]) for key, question in asked]
    assert sum(told) / len(told) >= least
    assert not any(in_other_language(question, [own[key]]) for key, question in asked)


def test_english_questions_are_told_to_be_no_other_language(shared_data: Path) -> None:
    lines = (shared_data / "nq_open" / "NQ-open.dev.jsonl").read_text("utf-8").splitlines()
    asked: list[str] = [json.loads(line)["question"] for line in lines]
    asked += [question for _, question, _ in xquad(shared_data, "en")]
    told = [question for question in asked if language_of(question) not in (None, "english")]
    assert len(asked) > 4000
    assert told == []


def xquad(folder: Path, language: str) -> list[tuple[str, str, str]]:
    """Id, question and passage."""
    data = json.loads((folder / f"xquad/xquad.{language}.even.json").read_text("utf-8"))["data"]
    return [
        (asked["id"], asked["question"], paragraph["context"])
        for article in data
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]
