"""Relevance by models: a bi-encoder, and a cross-encoder that reads question and passage together.

Which kind of cross-encoder it is follows from its configuration:

    sequence classifier, one label   the logit
    sequence classifier, several     log-odds of the label `entailment` against all others
    extractive reader                best span minus no answer
    instruct reranker                logit of its word for yes minus that of its word for no

All are log-odds of some sort, without bounds; what they are the odds of, differs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from sys import getsizeof
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._byte_cache import CACHE_BYTES, ByteCache, made_of
from ..contracts import RelevanceScorer
from ..errors import InputError, ModelFolderError
from ..fingerprint import Fingerprint
from ..model_files import EMBEDDED_SHA256
from ..text import foreign_language, is_readable
from ._tokenizing import (
    InstructPairs,
    PairRow,
    PairTokenizer,
    Truncation,
    free_tokenizer,
    piece_ids,
    shortened,
    token_rows,
)
from .backends import DtypeName, Runtime, Settings, run_rows
from .encoder import load_encoder
from .model_folder import INSTRUCT, READER, pair_model

Floats = NDArray[np.float32]


class BiEncoderScorer(RelevanceScorer):
    """Cosine similarity of sentence embeddings, in [-1, 1].

    On a CPU no text is padded, so that scores do not depend on what else is encoded but
    for the last bits.
    Passage embeddings are kept in memory, because retrieved passages repeat.

    Attributes:
        loaded: what runs the encoder, and what it was loaded from.

    Args:
        model: a sentence-transformers folder or hub id, or a folder that `export_scorer`
            wrote; None for the bundled all-MiniLM-L6-v2.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU for the bundled model; of Hugging Face also
            `bfloat16` and `float16`; None as the model is.
        cache_bytes: of the embeddings kept, least recently used dropped first; one takes
            1.8 kB at 384 dimensions. 0 keeps nothing.

    Raises:
        InputError: `cache_bytes` is negative, or the model does not have the dtype.
        ModelFolderError: the folder has no safetensors weights or the wrong ones, or names code.
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = 64 * 2**20,
    ) -> None:
        self._cache: ByteCache[bytes, Floats] = ByteCache(cache_bytes, getsizeof, "embeddings")
        self.loaded = load_encoder(model, Runtime(device, dtype))
        self._fingerprint = self.loaded.fingerprint("bi_encoder", self.loaded.max_length, {})
        self._tokenizer = free_tokenizer(self.loaded.tokenizer)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self._fingerprint

    @property
    def checks_deadline(self) -> bool:
        """Whether a passed deadline soon ends it: on a CPU, where passes are short."""
        return self.loaded.backend.device == "cpu"

    def supports(self, question: str) -> bool:
        """Whether a score of this question means anything.

        False where most word pieces are unknown, and for the embedded model where most letters
        are not Latin, or the language is clearly another than English.
        """
        if self._tokenizer is None:
            return True
        latin_only = self._fingerprint.weights_sha256 == EMBEDDED_SHA256
        if latin_only and foreign_language(question):
            return False
        text = shortened(question, self.loaded.max_length)
        pieces = piece_ids(self._tokenizer, text)
        unknown = self.loaded.tokenizer.unk_token_id
        return is_readable(question, pieces, unknown, latin_only=latin_only)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Cosines of shape (len(pairs),) for (question, passage) pairs."""
        if not pairs:
            return np.zeros(0, dtype=np.float64)
        questions = self.embed([question for question, _ in pairs])
        passages = self.embed([passage for _, passage in pairs])
        # Row by row: a matrix product may sum in another order for other shapes.
        cosines = [float(np.dot(q, p)) for q, p in zip(questions, passages, strict=True)]
        return np.asarray(cosines, dtype=np.float64)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit-length embeddings of shape (len(texts), dimensions), cached by text."""

        def encoded(missing: dict[bytes, str]) -> dict[bytes, Floats]:
            new, encode_texts = list(missing.values()), self.loaded.encode_texts
            if encode_texts is None:
                rows = self.encode_post(self.encode_core(self.encode_pre(new)))
            else:
                rows = encode_texts([shortened(text, self.loaded.max_length) for text in new])
            # Copies: a row of an array keeps the whole array in memory.
            return {key: row.copy() for key, row in zip(missing, rows, strict=True)}

        found: list[Floats] = made_of(self._cache, texts, encoded)
        return np.stack(found)

    def encode_pre(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise: the ids that the model reads of each text."""
        read = self.loaded.max_length
        cut = [shortened(text, read) for text in texts]
        return token_rows(self._tokenizer, self.loaded.tokenizer, read, cut)

    def encode_core(self, rows: Sequence[Sequence[int]]) -> list[list[Floats]]:
        """Compute: what the model gives for each row."""
        return run_rows(self.loaded.backend, rows)

    def encode_post(self, outputs: Sequence[Sequence[Floats]]) -> Floats:
        """Shape: embeddings of shape (rows, dimensions)."""
        return np.stack([embedding for _, embedding in outputs])


KIND = "cross_encoder"
# Tokens of a pass that ends soon enough after a deadline.
_SHORT_PASS = 1024
# Parts of a long passage that a reader looks into.
_MOST_WINDOWS = 8

# Tokens of the longest answer.
_LONGEST_ANSWER = 30


def best_span(starts: Floats, ends: Floats, first: int, beyond: int) -> float:
    """Logit of the best answer of up to 30 tokens, less that of no answer.

    No answer is a span of the first token alone, as in SQuAD 2.0.

    Args:
        starts: logits of the first token of an answer.
        ends: logits of its last token.
        first: of the passage's tokens.
        beyond: the last of them.

    Returns:
        The difference; below that of every span for a passage without tokens.
    """
    s, e = np.asarray(starts, dtype=np.float64), np.asarray(ends, dtype=np.float64)
    nothing = float(s[0] + e[0])
    if beyond <= first:
        return float(s.min() + e.min()) - nothing
    s, e = s[first:beyond], e[first:beyond]
    longest = min(_LONGEST_ANSWER, len(s))
    return max(float((s[: len(s) - n] + e[n:]).max()) for n in range(longest)) - nothing


class CrossEncoderScorer(RelevanceScorer):
    """Log-odds that a passage answers a question, by a Hugging Face model that reads both.

    - Rerankers with one label: the numbers of `sentence_transformers.CrossEncoder.predict`
      before its activation function.
    - Models of natural language inference: the label `entailment` against the others.
    - Extractive readers: the best answer in the passage against no answer.
    - Instruct rerankers: the word for yes against the word for no.

    On a CPU no pair is padded, so that a score depends on nothing but its pair, up to the last
    bits. Each text is tokenised once; the ids of passages are kept.

    Attributes:
        loaded: what runs the model, and what it was loaded from.
        output: how the model's outputs become a number: `logit`, `entailment`, `span` or `answer`.
        passage_first: whether the model is given the passage before the question: for natural
            language inference the passage is the premise. Classifiers of two labels, as for
            QNLI, read the question first.

    Args:
        model: a folder or hub id with `model.safetensors` and its tokenizer, or a folder that
            `export_scorer` or `knowgate models ms-marco` wrote.
        adapter: folder of changes and a head for the model of `knowgate models ms-marco`.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU for the downloaded reranker; of Hugging Face also
            `bfloat16` and `float16`; None as the model is.
        max_length: word pieces of both texts together, special ones included; None for as
            many as the model reads.
        truncation: what is cut of a longer pair: `longest_first`, as sentence-transformers
            does, or `only_second`, the passage. Readers and models with an adapter by default look
            into up to 8 parts of it, and the best one counts; instruct rerankers are always
            given a shorter passage.
        cache_bytes: of the ids kept, least recently used dropped first; a passage of 100
            words takes about 1 kB. 0 keeps nothing.
        kind: as fingerprints call it: a registered name, for a model that has one of its own.

    Raises:
        InputError: an option is not known or off its scale, or options do not go together.
        ModelFolderError: no safetensors weights, several labels and none called entailment,
            a tokenizer that does not put fixed marks around two texts, a language model
            without a known template, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        adapter: str | os.PathLike[str] | None = None,
        device: str = "auto",
        dtype: DtypeName | None = None,
        max_length: int | None = None,
        truncation: Truncation | None = None,
        cache_bytes: int = CACHE_BYTES,
        kind: str = KIND,
    ) -> None:
        runtime = Runtime(device, dtype)
        self.loaded = loaded = load_encoder(model, runtime, adapter, pairs=True)
        config = None if loaded.model is None else loaded.model.config
        self._read_output(config, loaded.folder)
        if max_length is not None and not 0 < max_length <= loaded.max_length:
            raise InputError(f"must be from 1 to {loaded.max_length}", where="max_length")
        self._max_length = max_length or loaded.max_length
        self._tokenizer = free_tokenizer(loaded.tokenizer)
        self._pairs: PairTokenizer | InstructPairs
        settings: Settings = {}
        if self.output != "logit":
            settings["output"] = self.output
        if loaded.template is not None:
            self._pairs = InstructPairs(self._tokenizer, loaded.template, self._max_length)
        else:
            in_parts = self.output == "span" or adapter is not None
            cut = truncation or ("only_second" if in_parts else "longest_first")
            settings["truncation"] = cut
            if self.passage_first and cut == "only_second":
                what = "'only_second' would cut the question, which this model reads last"
                raise InputError(what, where="truncation")
            windows = 1
            if in_parts and cut == "only_second":
                settings["windows"] = windows = _MOST_WINDOWS
            self._pairs = PairTokenizer(
                self._tokenizer, self._max_length, cut, cache_bytes, windows
            )
        self._fingerprint = loaded.fingerprint(kind, self._max_length, settings)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self._fingerprint

    @property
    def checks_deadline(self) -> bool:
        """Whether a passed deadline soon ends it: on a CPU, where passes are short.

        Not for models that read long texts: one pass of theirs may take seconds, so that it
        is run where it can be abandoned.
        """
        return self.loaded.backend.device == "cpu" and self._max_length <= _SHORT_PASS

    def _read_output(self, config: Any, folder: Path) -> None:
        """Read off a configuration how outputs become a number; None: of an exported reranker.

        Raises:
            ModelFolderError: there are several labels, and none is called entailment.
        """
        self.output: Literal["logit", "entailment", "span", "answer"] = "logit"
        self._label = 0
        self.passage_first = False
        known = {} if config is None else config.id2label
        reads = None if config is None else pair_model(getattr(config, "architectures", None))
        if reads in (READER, INSTRUCT):
            self.output = "span" if reads == READER else "answer"
        elif len(known) > 1:
            labels = {number: str(name).casefold() for number, name in known.items()}
            # Exactly so: a model of two classes calls the other one "not_entailment".
            found = [number for number, name in labels.items() if name == "entailment"]
            if len(found) != 1:
                raise ModelFolderError(
                    f"the model has {len(labels)} labels, and none is called entailment, only "
                    f"{', '.join(known.values())}",
                    where=str(folder),
                    hint="name a reranker with one label, or a model of natural language inference",
                )
            self.output = "entailment"
            self._label = int(found[0])
            self.passage_first = "contradiction" in labels.values()

    def _score(self, outputs: Sequence[Floats], row: PairRow) -> float:
        """The number of one row.

        Args:
            outputs: logits of shape (labels,); of a reader those of the start and of the end,
                each of shape (tokens,).
            row: that was run.
        """
        if self.output == "span":
            # What pads a batch is none of the row's.
            starts, ends = (one[: len(row.ids)] for one in outputs)
            return best_span(starts, ends, *row.second)
        logits = np.asarray(outputs[0], dtype=np.float64)
        if self.output == "entailment":
            others = np.delete(logits, self._label)
            return float(logits[self._label] - np.logaddexp.reduce(others))
        return float(logits[0])

    def supports(self, question: str) -> bool:
        """Whether most word pieces of the question are in the vocabulary."""
        pieces = piece_ids(self._tokenizer, shortened(question, self._max_length))
        unknown = self.loaded.tokenizer.unk_token_id
        return is_readable(question, pieces, unknown, latin_only=False)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Log-odds of shape (len(pairs),) for (question, passage) pairs."""
        rows = self.encode_pre(pairs)
        return self.encode_post(self.encode_core(rows), rows)

    def encode_pre(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """Tokenise: the row that the model reads of each pair, or its rows."""
        if self.passage_first:
            pairs = [(passage, question) for question, passage in pairs]
        return self._pairs.rows(pairs)

    def encode_core(self, rows: Sequence[PairRow]) -> list[list[Floats]]:
        """Compute: what the model gives for each row."""
        types = [row.types for row in rows] if self.loaded.takes_types else None
        return run_rows(self.loaded.backend, [row.ids for row in rows], types)

    def encode_post(
        self, outputs: Sequence[Sequence[Floats]], rows: Sequence[PairRow]
    ) -> NDArray[np.float64]:
        """Shape: one number per pair, the best of its rows."""
        found: list[float] = []
        for one, row in zip(outputs, rows, strict=True):
            score = self._score(one, row)
            if row.continues:
                found[-1] = max(found[-1], score)
            else:
                found.append(score)
        return np.array(found, dtype=np.float64)
