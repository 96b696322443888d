"""Embed many texts in batches, and check that the embeddings can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...guard.contracts import TextEmbedder
from ...guard.errors import InputError
from ...guard.fingerprint import Fingerprint


class Encoder(TextEmbedder, Protocol):
    """An embedder that a run's manifest can name; `BiEncoderScorer` is one."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Identifies whatever the embeddings depend on."""
        ...


_TEXTS_AT_ONCE = 64


def embed_all(
    texts: Sequence[str],
    encoder: TextEmbedder,
    on_progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Embed texts, some at a time; returns an array of shape (len(texts), dimensions).

    Args:
        texts: any number.
        encoder: of the texts.
        on_progress: called with (texts embedded, texts in all).

    Raises:
        InputError: the encoder does not return one finite row per text.
    """
    blocks = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        some = texts[start : start + _TEXTS_AT_ONCE]
        rows, what = np.asarray(encoder.embed(some), dtype=np.float32), ""
        if rows.ndim != 2 or len(rows) != len(some):
            what = f"gave embeddings of shape {rows.shape} for {len(some)} texts"
            hint = "it must give one row for each"
        elif len(wrong := np.flatnonzero(~np.isfinite(rows).all(axis=1))):
            what = f"the embedding of text {start + int(wrong[0]) + 1} is not finite"
            hint = "use another encoder, or leave that text out"
        if what:
            raise InputError(what, where="encoder", hint=hint)
        blocks.append(rows)
        if on_progress is not None:
            on_progress(start + len(some), len(texts))
    return np.concatenate(blocks) if blocks else np.zeros((0, 1), dtype=np.float32)
