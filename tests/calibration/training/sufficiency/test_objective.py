"""What training lowers: the serving features, made differentiable, and the loss over them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from knowgate.calibration.training.encoder import (
    MAX_PASSAGE_PIECES,
    MAX_QUESTION_PIECES,
    Encoded,
    TrainableEncoder,
    learning_rate,
    set_loss,
    set_weights,
    similarities,
)
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance.late_interaction import word_piece_idf
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer

QUESTIONS = ["When does the library open?", "What is it?", "How much is a ferry ticket to Kos?"]
PASSAGES = [
    "The library opens at nine in the morning.",
    "No.",
    "A ticket for the ferry is 12 euros. " * 12,
    "Dogs must be registered with the town.",
]


def _serving(scorer: SufficiencyScorer) -> NDArray[np.float64]:
    """The features of every passage for every question."""
    found = scorer.match_features(QUESTIONS, [PASSAGES] * len(QUESTIONS))
    return np.asarray([vectors for vectors, _ in found])


def _padded(encoder: TokenEncoder, texts: Sequence[str]) -> Encoded:
    """Token vectors as the model gives them, not scaled, with padding that is no zero."""
    windows = [ids for [ids] in encoder.encode_pre(texts, 1)]
    width = max(map(len, windows))
    vectors = torch.full((len(texts), width, 384), 7.0)
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    mask = torch.zeros(len(texts), width, dtype=torch.bool)
    outputs = encoder.encode_core([[one] for one in windows])
    for row, (pieces, (found, _)) in enumerate(zip(windows, outputs, strict=True)):
        vectors[row, : len(pieces)] = torch.tensor(found)
        ids[row, : len(pieces)] = torch.tensor(pieces)
        mask[row, : len(pieces)] = True
    return vectors, ids, mask


def test_the_same_vectors_give_the_features_that_serving_computes(
    scorer: SufficiencyScorer, trained: TokenEncoder
) -> None:
    idf = word_piece_idf(trained)
    assert idf is not None

    found = similarities(
        _padded(trained, QUESTIONS), _padded(trained, PASSAGES), torch.tensor(idf), 0.06
    )

    assert found.shape == (3, 4, 4)
    assert found.numpy() == pytest.approx(_serving(scorer), abs=1e-4)


def test_the_trained_encoder_gives_nearly_the_features_that_serving_computes(
    encoder: TrainableEncoder, scorer: SufficiencyScorer, trained: TokenEncoder
) -> None:
    idf = word_piece_idf(trained)
    assert idf is not None
    with torch.no_grad():
        found = similarities(
            encoder.encode(QUESTIONS, MAX_QUESTION_PIECES),
            encoder.encode(PASSAGES, MAX_PASSAGE_PIECES),
            torch.tensor(idf),
            0.06,
        )
    assert found.numpy() == pytest.approx(_serving(scorer), abs=1e-3)


def test_padding_does_not_show(trained: TokenEncoder) -> None:
    idf = torch.tensor(word_piece_idf(trained))
    together = similarities(_padded(trained, QUESTIONS), _padded(trained, PASSAGES), idf, 0.06)
    alone = similarities(
        _padded(trained, QUESTIONS[1:2]), _padded(trained, PASSAGES[1:2]), idf, 0.06
    )
    assert torch.allclose(together[1, 1], alone[0, 0], atol=1e-5)


def _toy(n: int, m: int, *, own: float, others: float) -> torch.Tensor:
    found = torch.full((n, m, 4), others)
    found[torch.arange(n), torch.arange(n)] = own
    return found


def test_the_loss_is_that_of_ranking_and_of_answered_and_unanswered_sets() -> None:
    weights = set_weights()
    similarity = _toy(2, 3, own=0.5, others=0.25)
    usable = torch.zeros(2, 3, dtype=torch.bool)
    # 10 + 5 + 5 + 1 times the features.
    own, other = 10.5, 5.25
    ranking = -own + math.log(math.exp(own) + 2 * math.exp(other))
    # The two others; the own place of a set without the passage is at the floor.
    rest = (other + other - 50.0) / 3
    answered = 0.25 * own + 0.25 * (own - rest) - 3.0
    unanswered = 0.25 * other + 0.25 * (other - (other - 50.0) / 2) - 3.0
    sets = (math.log1p(math.exp(-answered)) + math.log1p(math.exp(unanswered))) / 2
    assert set_loss(similarity, usable, *weights).item() == pytest.approx(ranking + sets, rel=1e-4)


def test_what_is_unusable_takes_no_part() -> None:
    weights, unusable = set_weights(), torch.zeros(6, 8, dtype=torch.bool)
    unusable[0, 3] = True
    similarity = _toy(6, 8, own=0.5, others=0.2)
    before = set_loss(similarity, unusable, *weights)
    similarity[0, 3] = 0.9
    assert set_loss(similarity, unusable, *weights).item() == before.item()
    assert set_loss(similarity, torch.zeros_like(unusable), *weights).item() > before.item()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.25),
        (1, 0.5 * 0.5 * (1 + math.cos(math.pi / 10))),
        (3, 0.5 * (1 + math.cos(0.3 * math.pi))),
        (5, 0.5),
        (9, 0.5 * (1 + math.cos(0.9 * math.pi))),
        (10, 0.02),
        (12, 0.5 * (1 + math.cos(1.2 * math.pi))),
    ],
)
def test_the_rate_rises_and_falls_along_half_a_cosine(step: int, expected: float) -> None:
    assert learning_rate(step, 10, 4) == pytest.approx(expected)
