"""Embeddings of many texts: a proper row for each, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.offline_eval.data.embedding import embed_all

Floats32 = NDArray[np.float32]


class _Encoder:
    fingerprint = Fingerprint(kind="scripted", backend="python", dtype="float32")

    def __init__(self, embed: Callable[[Sequence[str]], Floats32]) -> None:
        self.embed = embed


def _lengths(texts: Sequence[str]) -> Floats32:
    return np.asarray([[len(text), 1.0] for text in texts], dtype=np.float32)


def test_every_text_has_its_row_however_many_there_are() -> None:
    texts = ["x" * n for n in range(200)]
    told: list[tuple[int, int]] = []

    rows = embed_all(texts, _Encoder(_lengths), lambda done, total: told.append((done, total)))

    assert rows[:, 0].tolist() == list(range(200))
    assert told[-1] == (200, 200)
    assert embed_all([], _Encoder(_lengths)).shape[0] == 0
