"""A small made-up knowledge base, and an embedding without a model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration.training.cases import TrainingQuestion

PLACES = ("library", "harbour", "museum", "market", "bakery", "garden", "theatre", "pool")
FACTS = (
    ("When does the {} open?", "The {} opens at {} in the morning, every day but Monday."),
    ("What does a ticket for the {} cost?", "A ticket for the {} is {} euros at the desk."),
    ("How many people may enter the {} at once?", "The {} takes {} visitors at the same time."),
)


def hash_embedding(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit-length counts of hashed words, of shape (len(texts), 64)."""
    rows = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[zlib.crc32(word.encode()) % 64] += 1.0
        row[0] += 1e-3
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / lengths, dtype=np.float32)


def made_up_questions(count: int = 24) -> list[TrainingQuestion]:
    """At most 24 questions about eight places, three about each."""
    pairs = [(place, fact) for fact in FACTS for place in PLACES][:count]
    return [
        TrainingQuestion(
            id=f"q{number}",
            text=asked.format(place),
            passage=told.format(place, 7 + number),
            topic="town",
        )
        for number, (place, (asked, told)) in enumerate(pairs)
    ]
