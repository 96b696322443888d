"""Token vectors and sentence embeddings of texts, from one pass of the model.

What is promised:

- **One pass per text** gives both the last hidden state of every word piece and the
  sentence embedding.
- **The embedding is the bi-encoder's**: that of `BiEncoderScorer` with the same model, for
  any text.
- **Independence**: what a text gives does not depend on its neighbours, on the order, on the
  cache or on other threads, but for the last bits (at most 1e-5 in float32). On a CPU windows
  are not padded.
- **Whole texts**: what is longer than the model takes is read in overlapping windows, the
  first of which is what the bi-encoder reads.
- **Shared results are read-only**: arrays may come from the cache and are read-only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from sys import getsizeof
from types import SimpleNamespace

import numpy as np

from .._byte_cache import CACHE_BYTES, ByteCache, content_key, made_of
from ..errors import InputError, ModelFolderError
from ..fingerprint import Fingerprint
from ..model_files import EMBEDDED_SHA256, EMBEDDED_VOCABULARY_SHA256, adapter_sha256
from ..text import clean_text, is_readable
from ._tokenizing import CHARACTERS_PER_TOKEN, free_tokenizer, piece_ids
from .backends import (
    MANIFEST_FILE,
    MULTILINGUAL_FILE,
    READER_FILE,
    DtypeName,
    LoadedEncoder,
    RowOutputs,
    Runtime,
    run_rows,
)
from .passage_store import EncodedText, PassageStore


def load_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
    *,
    pairs: bool = False,
) -> LoadedEncoder:
    """Load an encoder, or a cross-encoder.

    Args:
        model: a sentence-transformers folder or hub id, or a folder that `export_scorer`
            or `knowgate models multilingual` wrote; None for the bundled all-MiniLM-L6-v2. Of
            a cross-encoder a model of transformers that reads pairs, an exported one, or the
            downloaded reranker.
        runtime: where it is computed, and how.
        adapter: folder of a LoRA adapter that is added to the bundled weights, or of changes to
            the downloaded reranker.
        pairs: whether it is a cross-encoder.

    Raises:
        InputError: an adapter for another model, or a dtype that the model does not have.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    changes = None if adapter is None else Path(adapter)
    if model is None:
        from .embedded import load_embedded

        return load_embedded(runtime, changes)
    folder = Path(model)
    if pairs and (folder / READER_FILE).is_file():
        from .embedded import load_reader

        return load_reader(folder, runtime, changes)
    if adapter is not None:
        what = "the downloaded reranker" if pairs else "the bundled encoder"
        raise InputError(f"an adapter is for {what}", where="adapter")
    if exported_as(model) is not None:
        from ._onnx_backend import load_onnx

        return load_onnx(folder, runtime)
    if not pairs and (folder / MULTILINGUAL_FILE).is_file():
        from .multilingual import load_multilingual

        return load_multilingual(folder, runtime)
    from ._torch_backend import load_torch, load_torch_cross_encoder

    return (load_torch_cross_encoder if pairs else load_torch)(os.fspath(model), runtime)


def exported_as(folder: str | os.PathLike[str]) -> str | None:
    """The kind of the scorer that `export_scorer` wrote into a folder.

    None for any other folder.

    Raises:
        ModelFolderError: what it wrote is damaged.
    """
    if not (Path(folder) / MANIFEST_FILE).is_file():
        return None
    from ._onnx_backend import Manifest

    return Manifest.load(Path(folder)).scorer


MAX_WINDOWS = 16
# The objects around the numbers of one window.
_BYTES_PER_WINDOW = 600
# Three quarters of a window: no stretch of a quarter window is ever cut in two.
_STRIDE_SHARE = 0.75
# Of what is known of long texts: whether all of them is read.
_BYTES_ON_WHOLE_TEXTS = 2**20


class TokenEncoder:
    """Runs a sentence-transformers model once per text and keeps every token's vector.

    A window holds as many word pieces as the model reads (256 for the embedded one,
    [CLS] and [SEP] included); windows start three quarters of that apart.

    Attributes:
        loaded: what runs the encoder, and what it was loaded from.
        max_length: word pieces per window, [CLS] and [SEP] included.
        stride: word pieces from the start of one window to the start of the next.
        device: where the model runs, e.g. `cpu`.
        weights_sha256: of the weights file.
        is_embedded: whether these are the embedded weights, which know English only.
        unknown_id: the id of word pieces that the vocabulary lacks, None where there is none.

    Args:
        model: a sentence-transformers folder or hub id, or a folder that `export_scorer`
            wrote; None for the bundled all-MiniLM-L6-v2, whose sha256 is checked.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU for the bundled model; of Hugging Face also
            `bfloat16` and `float16`; None as the model is.
        cache_bytes: of the encoded texts kept in memory, least recently used dropped
            first; a passage of 100 words takes about 200 kB at 384 dimensions. 0 keeps
            nothing.
        adapter: folder of a LoRA adapter that is added to the bundled model's weights.

    Raises:
        InputError: `cache_bytes` is negative, or the model does not have the dtype.
        ModelFolderError: the folder has no safetensors weights or the wrong ones, or a
            tokenizer without [CLS] and [SEP].
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = CACHE_BYTES,
        adapter: str | os.PathLike[str] | None = None,
    ) -> None:
        self._new_cache = partial(
            ByteCache[bytes, list[EncodedText]], cache_bytes, _bytes_of, "encoded_texts"
        )
        self._cache = self._new_cache()
        self._whole: ByteCache[bytes, bool] = ByteCache(_BYTES_ON_WHOLE_TEXTS, getsizeof)
        self.loaded = loaded = load_encoder(model, Runtime(device, dtype), adapter)
        self.max_length, self.device = loaded.max_length, loaded.backend.device
        self.stride = max(1, int(self.max_length * _STRIDE_SHARE))
        self.weights_sha256 = loaded.weights_sha256
        self.is_embedded = self.weights_sha256 == EMBEDDED_SHA256
        self._adapter = None if adapter is None else Path(adapter)
        self._store: PassageStore | None = None
        own, marks = free_tokenizer(loaded.tokenizer), loaded.tokenizer
        if own is None or marks.cls_token_id is None or marks.sep_token_id is None:
            what = "its tokenizer has no tokenizer.json, or no [CLS] and [SEP]"
            hint = "name a folder of a BERT-like sentence-transformers model"
            raise ModelFolderError(what, where=str(loaded.folder), hint=hint)
        self._tokenizer, self.unknown_id = own, marks.unk_token_id
        self._first, self._last = int(marks.cls_token_id), int(marks.sep_token_id)

    def supports(self, question: str) -> bool:
        """Whether what the vectors say of this question means anything.

        False where most word pieces are unknown, and for the embedded model where
        most letters are not Latin. Languages in Latin script are not distinguished: scorers do.
        """
        pieces = self.pieces(question)
        return is_readable(question, pieces, self.unknown_id, latin_only=self.is_embedded)

    def reads_whole(self, text: str) -> bool:
        """Whether a text is read to its end: it fits into `MAX_WINDOWS` windows."""
        room = self.stride * (MAX_WINDOWS - 1) + self.max_length - 2
        if len(text) <= room:
            # No word piece is shorter than a character.
            return True

        def fits() -> bool:
            plain = " ".join(clean_text(text).split())
            reach = self.max_length * CHARACTERS_PER_TOKEN * MAX_WINDOWS
            return len(plain) <= reach and len(self._ids(plain)) <= room

        return self._whole.made(content_key(text), fits)

    def vocabulary_sha256(self) -> str:
        """Of the word pieces in the order of their ids: tables by id are bound to it."""
        if self.is_embedded:
            return EMBEDDED_VOCABULARY_SHA256
        by_id = sorted((i, piece) for piece, i in self._tokenizer.get_vocab().items())
        return hashlib.sha256("\n".join(f"{i} {piece}" for i, piece in by_id).encode()).hexdigest()

    def fingerprint(self, kind: str, **settings: str | int | float | bool | None) -> Fingerprint:
        """The fingerprint of a scorer of `kind` that rests on this encoder."""
        read = {"max_windows": MAX_WINDOWS, "stride": self.stride}
        return self.loaded.fingerprint(kind, self.max_length, {**read, **settings})

    @cached_property
    def identity(self) -> Fingerprint:
        """What stored passages are bound to: all that vectors depend on."""
        adapter = None if self._adapter is None else adapter_sha256(self._adapter)
        return self.fingerprint("encoder", adapter_sha256=adapter).probed(
            SimpleNamespace(score=self._cosines)
        )

    def _cosines(self, question: str, passages: Sequence[str]) -> list[float]:
        """Of embeddings, for the probe."""
        asked, *told = (one.embedding for one in self.encode_first([question, *passages]))
        return [float(np.dot(asked, one)) for one in told]

    def use_passages(self, folder: str | os.PathLike[str]) -> None:
        """Read passages from a folder that `knowgate index` wrote; encode only those not in it.

        Those that are encoded are rounded as the stored ones are, so that a score does not
        depend on whether a passage is stored.

        Raises:
            ModelFolderError: the folder is damaged, or was written for another encoder.
        """
        self._store = PassageStore(folder, self.identity)
        # What is being encoded goes into the old one.
        self._cache = self._new_cache()

    def encode(
        self, texts: Sequence[str], *, max_windows: int = MAX_WINDOWS
    ) -> list[list[EncodedText]]:
        """The windows of each text, in order; at least one, at most `max_windows` each.

        Args:
            texts: any number of texts; equal ones are encoded once.
            max_windows: what lies beyond so many windows is not read; within
                [1, `MAX_WINDOWS`].
        """
        limit = min(max(1, max_windows), MAX_WINDOWS)
        # What is read in fewer windows is no passage.
        store = self._store if limit == MAX_WINDOWS else None

        def encoded(missing: dict[bytes, str]) -> dict[bytes, list[EncodedText]]:
            found = {} if store is None else store.found(missing)
            new = {key: text for key, text in missing.items() if key not in found}
            windows = self.encode_pre(list(new.values()), limit)
            fresh = self.encode_post(windows, self.encode_core(windows)) if windows else []
            if store is not None:
                fresh = [store.rounded(one) for one in fresh]
            return found | dict(zip(new, fresh, strict=True))

        return made_of(self._cache, texts, encoded, limit)

    def encode_pre(
        self,
        texts: Sequence[str],
        max_windows: int = MAX_WINDOWS,
    ) -> list[list[list[int]]]:
        """Tokenise: the ids of each window of each text."""
        return [self._windows(text, max_windows) for text in texts]

    def encode_core(self, windows: Sequence[Sequence[list[int]]]) -> list[RowOutputs]:
        """Compute: what the model gives for each window, for its own tokens."""
        rows = [ids for text in windows for ids in text]
        prefix = self.loaded.prefix
        if not prefix:
            return run_rows(self.loaded.backend, rows)
        found = run_rows(self.loaded.backend, [[ids[0], *prefix, *ids[1:]] for ids in rows])
        places = slice(1, 1 + len(prefix))
        return [[np.delete(vectors, places, axis=0), text] for vectors, text in found]

    def encode_post(
        self, windows: Sequence[Sequence[list[int]]], outputs: Sequence[RowOutputs]
    ) -> list[list[EncodedText]]:
        """Shape: the windows of each text with their ids, read-only."""
        rows = iter(outputs)
        return [
            [EncodedText(np.asarray(ids, dtype=np.int32), *next(rows)) for ids in text]
            for text in windows
        ]

    def encode_first(self, texts: Sequence[str]) -> list[EncodedText]:
        """The first window of each text, for questions: nothing beyond it is encoded."""
        return [windows[0] for windows in self.encode(texts, max_windows=1)]

    def pieces(self, text: str) -> list[int]:
        """The word-piece ids of a text's first window, without [CLS] and [SEP]."""
        return self._windows(text, 1)[0][1:-1]

    def _windows(self, text: str, limit: int) -> list[list[int]]:
        """Word-piece ids of each window, with [CLS] and [SEP]."""
        room = self.max_length - 2
        text = clean_text(text)
        # As the bi-encoder does it, which looks no further than this into a long text.
        reach = self.max_length * CHARACTERS_PER_TOKEN
        if len(text) > reach:
            text = " ".join(text.split())[: reach * limit]
        first = self._ids(text[:reach])
        windows = [first[:room]]
        if limit > 1:
            ids = first if len(text) <= reach else self._ids(text)
            starts = range(self.stride, len(ids), self.stride)
            later = [start for start in starts if start - self.stride + room < len(ids)]
            windows += [ids[start : start + room] for start in later[: limit - 1]]
        return [[self._first, *ids, self._last] for ids in windows]

    def _ids(self, text: str) -> list[int]:
        return piece_ids(self._tokenizer, text)


def _bytes_of(windows: list[EncodedText]) -> int:
    return sum(_BYTES_PER_WINDOW + window.nbytes for window in windows)
