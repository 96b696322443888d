"""Passages encoded ahead of time: written to a folder, and read from it by scorers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..._byte_cache import content_key
from ...contracts import RelevanceScorer
from ...engine.encoder import TokenEncoder
from ...errors import InputError
from ...model_files import MS_MARCO
from ...text import InputLimits
from ._echo import StatedText
from ._judge import JUDGE
from .late_interaction import TokenScorer
from .sufficiency import SufficiencyScorer

# Of these nothing can be computed before the question is there.
_READS_PAIRS = frozenset({"cross_encoder", MS_MARCO, JUDGE})
# Encoded at a time, and lost when the writer is killed.
_PASSAGES_PER_COMMIT = 256


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `index_passages` wrote.

    Attributes:
        read: passages that were given, blank ones left out.
        encoded: texts that were encoded now.
        reused: texts whose vectors were copied from another folder.
        stored: texts in the folder. A passage with a question in it has two: with it, without.
        bytes: of the folder's files.
    """

    read: int
    encoded: int
    reused: int
    stored: int
    bytes: int


def index_passages(
    passages: Iterable[object],
    folder: str | os.PathLike[str],
    scorer: RelevanceScorer,
    *,
    dtype: str | None = None,
    reuse: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] = lambda read: None,
) -> IndexReport:
    """Encode passages into a folder, for `Guard.load(…, passages=folder)`.

    What the folder has already is not encoded again, so a build that was stopped goes on when
    it is started again, and new passages are appended. Passages are found by their text, to the
    last character: give them as the retriever will. Those that are gone stay until a new
    folder is written; `reuse` the old one then, and nothing is encoded twice.

    Args:
        passages: texts, LangChain documents or mappings with `text`; read once, in parts.
        folder: new, empty, or written for the same scorer.
        scorer: of `load_scorer`; one that encodes tokens (`sufficiency`,
            `sufficiency_cross`, `late_interaction`).
        dtype: `float16` for scores within the tolerance of a policy; `int8` for half the size
            and scores to calibrate on (`load_scorer(name, passages=folder)`). By default what
            the folder has, and float16 for a new one.
        reuse: another folder for the same scorer and dtype.
        progress: called with the number of passages read.

    Raises:
        InputError: the scorer encodes no tokens, a passage has no text, the folder has other
            files or another dtype, or another process writes it.
        ModelFolderError: a folder is damaged, or was written for another scorer.
    """
    encoder = _encoder_of(scorer)
    read = encoded = reused = 0
    with encoder.passage_writer(folder, dtype, reuse) as writer:
        given = _texts(passages)
        while part := list(islice(given, _PASSAGES_PER_COMMIT)):
            texts = [text for passage in part for text in _encoded_texts(scorer, passage)]
            new = {key: text for text in texts if (key := content_key(text)) not in writer}
            missing = {key: text for key, text in new.items() if not writer.copy(key)}
            windows = encoder.encode(list(missing.values()))
            writer.append(dict(zip(missing, windows, strict=True)))
            writer.commit()
            read, encoded = read + len(part), encoded + len(missing)
            reused += len(new) - len(missing)
            progress(read)
        stored = len(writer)
    size = sum(path.stat().st_size for path in Path(folder).iterdir() if path.is_file())
    return IndexReport(read, encoded, reused, stored, size)


def use_passages(scorer: RelevanceScorer, folder: str | os.PathLike[str]) -> None:
    """Let a scorer read passages from a folder that `index_passages` wrote.

    Raises:
        InputError: the scorer encodes no tokens.
        ModelFolderError: the folder is damaged, or was written for another scorer.
    """
    _encoder_of(scorer).use_passages(folder)


def _encoder_of(scorer: RelevanceScorer) -> TokenEncoder:
    if isinstance(scorer, TokenScorer):
        return scorer.encoder
    kind = scorer.fingerprint.kind
    why = " (it reads question and passage together)" if kind in _READS_PAIRS else ""
    raise InputError(
        f"the scorer {kind!r} does not use stored passages{why}",
        hint="use sufficiency, late_interaction or a folder of `knowgate tune relevance`",
    )


def _encoded_texts(scorer: RelevanceScorer, passage: str) -> tuple[str, ...]:
    """What a scorer encodes of a passage, copies of the question in it aside."""
    if isinstance(scorer, SufficiencyScorer):
        return StatedText.of("", passage).texts
    return (passage,)


def _texts(passages: Iterable[object]) -> Iterator[str]:
    """The text of each passage as a guard reads it; blank ones left out."""
    for passage in passages:
        _, [text] = InputLimits().read_passages([passage])
        if text and not text.isspace():
            yield text
