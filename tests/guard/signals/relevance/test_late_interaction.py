"""Late interaction: each question token's best match, weighted; passages alone and together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Guard, GuardOptions, InputError, Policy
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.signals.relevance import late_interaction as _late_interaction
from knowgate.guard.signals.relevance.late_interaction import (
    LateInteractionScorer,
    _idf_table,
    best_cosines,
    token_weights,
    weighted_match,
    word_piece_idf,
)
from tests.support.guards import without_timings

QUESTION = "When does the library open, and who may borrow books?"
PASSAGES = [
    "The library opens at nine.",
    "Residents of the town may borrow books.",
    "The swimming pool is closed on Mondays.",
    "Dogs must be registered. " * 90,
    "",
]


@pytest.fixture(scope="module")
def scorer() -> LateInteractionScorer:
    """The embedded model on the CPU."""
    return LateInteractionScorer(TokenEncoder(device="cpu"))


@pytest.mark.slow
def test_what_answers_scores_above_what_does_not(scorer: LateInteractionScorer) -> None:
    library, _, pool, _, nothing = scorer.score("When does the library open?", PASSAGES)
    assert library > pool > nothing
    assert nothing == pytest.approx(-1.0)


def test_a_text_matches_itself_wholly(scorer: LateInteractionScorer) -> None:
    assert scorer.score(QUESTION, [QUESTION])[0] == pytest.approx(1.0, abs=1e-5)


def test_the_score_is_the_weighted_mean_of_the_best_cosines(scorer: LateInteractionScorer) -> None:
    question = scorer.encoder.encode_first([QUESTION])[0]
    [window] = scorer.encoder.encode([PASSAGES[0]])[0]
    asked, told = question.vectors[1:-1], window.vectors[1:-1]
    lengths = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(told, axis=1)
    idf = word_piece_idf(scorer.encoder)
    assert idf is not None
    expected = np.average((asked @ told.T / lengths).max(axis=1), weights=idf[question.ids[1:-1]])
    assert scorer.score(QUESTION, [PASSAGES[0]])[0] == pytest.approx(float(expected), abs=1e-6)


def test_two_half_answers_together_match_better_than_either(scorer: LateInteractionScorer) -> None:
    judged = scorer.score_set(QUESTION, PASSAGES[:2])
    assert judged.joint > max(judged.scores)


@settings(max_examples=15, deadline=None)
@given(chosen=st.lists(st.sampled_from(PASSAGES), min_size=1, max_size=5), data=st.data())
def test_every_way_of_scoring_agrees_to_the_last_bit(
    scorer: LateInteractionScorer, chosen: list[str], data: st.DataObject
) -> None:
    judged = scorer.score_set(QUESTION, chosen)
    assert list(judged.scores) == scorer.score(QUESTION, chosen).tolist()
    assert list(judged.scores) == [scorer.score_pairs([(QUESTION, p)])[0] for p in chosen]
    assert scorer.score_sets([PASSAGES[0], QUESTION], [PASSAGES, chosen])[1] == judged
    shuffled = data.draw(st.permutations(chosen))
    assert scorer.score_set(QUESTION, shuffled).joint == judged.joint
    assert -1.0 <= max(judged.scores) <= judged.joint + 1e-12 <= 1.0 + 1e-12


@pytest.mark.slow
def test_the_end_of_a_long_passage_is_read(scorer: LateInteractionScorer) -> None:
    hidden = "Dogs must be registered. " * 150 + "The library opens at nine."
    with_it, without = scorer.score("When does the library open?", [hidden, hidden[:-26]])
    assert with_it > without + 0.2


def test_no_passages_give_no_scores_and_no_joint_value(scorer: LateInteractionScorer) -> None:
    assert scorer.score(QUESTION, []).shape == (0,)
    with pytest.raises(InputError, match="no passage"):
        scorer.score_set(QUESTION, [])
    with pytest.raises(InputError, match="1 questions but 2 sets"):
        scorer.score_sets([QUESTION], [["a"], ["b"]])


def test_a_question_without_word_pieces_matches_nothing(scorer: LateInteractionScorer) -> None:
    assert scorer.score("\u200b", PASSAGES[:1]).tolist() == [-1.0]
    assert weighted_match(np.zeros(0), np.zeros(0)) == -1.0


def test_common_and_unknown_word_pieces_weigh_less_than_rare_ones(
    scorer: LateInteractionScorer,
) -> None:
    question = scorer.encoder.encode_first(["the library 🙂"])[0]
    the, library, unknown = token_weights(question, word_piece_idf(scorer.encoder), 100)
    assert library > the > unknown == 0.0
    assert the + library == pytest.approx(1.0)


def test_without_a_table_all_word_pieces_weigh_the_same(scorer: LateInteractionScorer) -> None:
    question = scorer.encoder.encode_first(["the library"])[0]
    assert token_weights(question, None, 100).tolist() == [0.5, 0.5]
    unknown = scorer.encoder.encode_first(["🙂 🙂"])[0]
    assert token_weights(unknown, None, 100).tolist() == [0.5, 0.5]


def test_the_best_of_no_tokens_is_minus_one(scorer: LateInteractionScorer) -> None:
    question = scorer.encoder.encode_first(["the library"])[0]
    assert best_cosines(question, []).tolist() == [-1.0, -1.0]


def test_a_table_that_was_tampered_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.safetensors"
    table.write_bytes(b"other weights")
    monkeypatch.setattr(_late_interaction, "IDF_FILE", table)
    _idf_table.cache_clear()
    with pytest.raises(ModelFolderError, match="sha256 is"):
        _idf_table()


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", ["joint", "max"])
async def test_single_and_batch_decisions_are_equal_to_the_last_bit(
    scorer: LateInteractionScorer, aggregator: str
) -> None:
    policy = Policy(scorer=scorer.fingerprint, aggregator=aggregator, relevance_threshold=0.5)
    guard = Guard(
        policy, scorer=scorer, metrics=False, options=GuardOptions(deadlines={"relevance": None})
    )
    questions = [f"{QUESTION} Number {i}?" for i in range(40)] + ["图书馆几点开门？"]
    passages = [PASSAGES[: 1 + i % 5] for i in range(41)]
    expected = [
        without_timings(guard.decide(q, p)) for q, p in zip(questions, passages, strict=True)
    ]
    batch = guard.decide_batch(questions, passages)
    abatch = await guard.adecide_batch(questions, passages)
    assert [without_timings(d) for d in batch] == expected
    assert [without_timings(d) for d in abatch] == expected
