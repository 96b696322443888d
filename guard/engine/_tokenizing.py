"""Texts to ids: word pieces of one text, rows for encoders, pairs for cross-encoders.

A pair is assembled from the ids of its two texts, each tokenised once and kept. The row has
the ids and token types that the tokenizer itself gives the pair: what it puts around the two
texts is read off one pair when the model is loaded.

Instruct rerankers are language models, right only with the template of their training, so the
templates of two families are data of the package (`reranker_templates.json`): `qwen3` for
Qwen3-Reranker, `qwen2` for mxbai-rerank-v2. The template's marks are special tokens; in a
question or a passage the same characters are plain text, so that no passage can end its turn
and give the answer itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from .._byte_cache import ByteCache, made_of
from ..errors import ModelFolderError, optional_import, require_known
from ..files import json_sha256
from ..text import clean_text

TOKENIZER_FILE = "tokenizer.json"
BERT_MARKS = ("[CLS]", "[SEP]", "[UNK]")
# A word piece is rarely longer; text beyond this cannot reach the model anyway,
# so a megabyte of text need not be tokenised in full.
CHARACTERS_PER_TOKEN = 40
_SHORT_TEXT = 2_000
Truncation = Literal["longest_first", "only_second"]
Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Marks:
    """A tokenizer and the ids of its marks, by the names that transformers gives them."""

    backend_tokenizer: Any
    cls_token_id: int
    sep_token_id: int
    unk_token_id: int | None

    @classmethod
    def read(cls, folder: Path, marks: tuple[str, ...] = BERT_MARKS) -> Marks:
        """Read `tokenizer.json`, once per process and again when the file changes.

        Args:
            folder: that holds it.
            marks: what begins a text, ends it, and stands for what is unknown.
        """
        status = (folder / TOKENIZER_FILE).stat()
        return _marks(folder / TOKENIZER_FILE, marks, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _marks(path: Path, marks: tuple[str, ...], changed: int, size: int) -> Marks:
    found = uncut_tokenizer(path.read_text("utf-8"))
    return Marks(found, *map(found.token_to_id, marks))


def uncut_tokenizer(text: str) -> Any:
    """A tokenizer of the library tokenizers by its JSON, without truncation and padding."""
    found = optional_import("tokenizers").Tokenizer.from_str(text)
    found.no_truncation()
    found.no_padding()
    return found


def free_tokenizer(tokenizer: Any) -> Any | None:
    """An encoder's tokenizer without truncation and padding; None for a slow one.

    A copy where the model sets its own to truncate again whenever it encodes,
    which may be on another thread at this moment.
    """
    if isinstance(tokenizer, Marks):
        return tokenizer.backend_tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return None if backend is None else uncut_tokenizer(backend.to_str())


def piece_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of the word pieces of a text, without marks.

    A long text is encoded as a batch of one, which gives the same ids and lets other threads
    run meanwhile: the event loop of a server would stand still for a second otherwise.
    """
    if len(text) > _SHORT_TEXT:
        [found] = tokenizer.encode_batch_fast([text], add_special_tokens=False)
    else:
        found = tokenizer.encode(text, add_special_tokens=False)
    return list(found.ids)


def shortened(text: str, max_length: int) -> str:
    """A text, cut where a model that reads so many word pieces does not look any more."""
    limit = max_length * CHARACTERS_PER_TOKEN
    text = clean_text(text)
    return text if len(text) <= limit else " ".join(text.split())[:limit]


def token_rows(
    tokenizer: Any, marks: Any, max_length: int, texts: Sequence[str]
) -> list[list[int]]:
    """The word-piece ids that an encoder reads of each text, special ones included.

    Args:
        tokenizer: of `free_tokenizer`.
        marks: has the ids of [CLS] and [SEP].
        max_length: word pieces to which texts are cut.
        texts: in any number.
    """
    first, last = marks.cls_token_id, marks.sep_token_id
    return [[first, *piece_ids(tokenizer, text.strip())[: max_length - 2], last] for text in texts]


@dataclass(frozen=True, slots=True, eq=False)
class PairRow:
    """One pair as a cross-encoder reads it.

    Attributes:
        ids: word-piece ids of shape (n,), special ones included.
        types: token types of shape (n,).
        second: where the second text begins and where it has ended, for models that mark
            places in it.
        continues: whether the row goes on with the second text of the row before.
    """

    ids: Ids
    types: Ids
    second: tuple[int, int] = (0, 0)
    continues: bool = False


# Of a text as part of a pair: ids of as many word pieces as its rows may hold, without marks
# and read-only; and how many word pieces it has in all.
TextIds = tuple[Ids, int]


class PairTokenizer:
    """Assembles pairs of texts from ids that are kept.

    Args:
        tokenizer: of `free_tokenizer`.
        max_length: word pieces per pair, special ones included.
        truncation: what is cut of a pair that is longer: `longest_first`, as
            sentence-transformers does, or `only_second`, so that no question is cut as long
            as one piece of the passage is left.
        windows: rows that a longer second text may have, each of which goes on from the last
            quarter of the one before; 1 cuts it.
        cache_bytes: of the ids kept, least recently used dropped first; a passage of 100
            words takes about 1 kB. 0 keeps nothing.

    Raises:
        InputError: the truncation is not known, or `cache_bytes` is negative.
        ModelFolderError: the tokenizer does not put fixed ids around two texts, the first one
            first, or the length leaves no room for both.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        truncation: Truncation = "longest_first",
        cache_bytes: int = 64 * 2**20,
        windows: int = 1,
    ) -> None:
        require_known(truncation, get_args(Truncation), "truncation")
        self._cache: ByteCache[bytes, TextIds] = ByteCache(cache_bytes, _bytes_of, "word_pieces")
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._truncation = truncation
        self._windows = windows
        self._marks, self._types = _surroundings(tokenizer)
        self._room = max_length - sum(map(len, self._marks))
        if self._room < 2:
            raise ModelFolderError(f"a length of {max_length} leaves no room for a pair")

    def rows(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """The row of each pair, or its rows; each different text is tokenised once."""
        texts = [text for pair in pairs for text in pair]
        read = made_of(
            self._cache, texts, lambda new: {key: self._ids(text) for key, text in new.items()}
        )
        return [row for i in range(0, len(read), 2) for row in self._rows(read[i], read[i + 1])]

    def _ids(self, text: str) -> TextIds:
        ids = piece_ids(self._tokenizer, shortened(text, self._max_length * self._windows))
        array = np.array(ids[: self._room * self._windows], dtype=np.int32)
        array.setflags(write=False)
        return array, len(ids)

    def _rows(self, asked: TextIds, told: TextIds) -> Iterator[PairRow]:
        (first, first_pieces), (second, pieces) = asked, told
        kept = _kept(first_pieces, pieces, self._room, self._truncation)
        step = max(1, kept[1] * 3 // 4)
        for window in range(self._windows):
            begin = window * step
            part = second[begin : begin + kept[1]]
            yield self._row(first[: kept[0]], part, continues=window > 0)
            if begin + kept[1] >= len(second):
                return

    def _row(self, first: Ids, second: Ids, *, continues: bool) -> PairRow:
        before, between, after = self._marks
        parts = (before, first, between, second, after)
        lengths = list(map(len, parts))
        return PairRow(
            np.concatenate(parts),
            np.repeat(self._types, lengths),
            (sum(lengths[:3]), sum(lengths[:4])),
            continues,
        )


def _bytes_of(text: TextIds) -> int:
    # The objects around the numbers.
    return text[0].nbytes + 200


def _kept(first: int, second: int, room: int, truncation: str) -> tuple[int, int]:
    """How many pieces of two texts a row keeps, as the library tokenizers cuts them."""
    if first + second <= room:
        return first, second
    if truncation == "only_second":
        first = min(first, room - 1)
        return first, room - first
    shorter = min(first, second)
    if 2 * shorter > room:
        # Both are cut; the longer one keeps the odd piece.
        half, odd = room // 2, room % 2
        return (half, half + odd) if first <= second else (half + odd, half)
    return (first, room - first) if first <= second else (room - second, second)


def _surroundings(tokenizer: Any) -> tuple[tuple[Ids, Ids, Ids], Ids]:
    """What a tokenizer puts before, between and after two texts, and the five token types."""
    parts: list[list[tuple[int, int]]] = [[], [], [], [], []]
    found, place = tokenizer.encode("a", "b"), 0
    for piece, kind, sequence in zip(found.ids, found.type_ids, found.sequence_ids, strict=True):
        # What surrounds the texts belongs to neither.
        place = place + place % 2 if sequence is None else 2 * sequence + 1
        parts[min(place, 4)].append((piece, kind))
    texts = [[piece for piece, _ in parts[place]] for place in (1, 3)]
    in_order = [piece for part in parts for piece, _ in part] == found.ids
    one_type = all(len({kind for _, kind in part}) <= 1 for part in parts)
    own = [piece_ids(tokenizer, text) for text in ("a", "b")]
    if texts != own or not (all(texts) and in_order and one_type):
        what = "its tokenizer does not put fixed ids around two texts"
        hint = "name a folder of a BERT-like or RoBERTa-like cross-encoder"
        raise ModelFolderError(what, hint=hint)
    before, between, after = (
        np.array([piece for piece, _ in parts[place]], dtype=np.int32) for place in (0, 2, 4)
    )
    types = [part[0][1] if part else 0 for part in parts]
    return (before, between, after), np.array(types, dtype=np.int32)


# The most that such a model is given: memory grows with it, and the makers give no more.
MOST_PIECES = 8192
_SLOT = re.compile(r"\{(question|passage)\}")
_PASSAGE = "{passage}"


@dataclass(frozen=True, slots=True)
class RerankerTemplate:
    """The text around a pair, and the words that a model answers with.

    Attributes:
        parts: tokenised one by one, as the makers do; those with `{question}` or `{passage}`
            hold text of others.
        yes: the word for a relevant passage, one token.
        no: the word for any other, one token.
    """

    parts: tuple[str, ...]
    yes: str
    no: str

    @classmethod
    def of(cls, family: str, folder: Path) -> RerankerTemplate:
        """The template of a model family, by the `model_type` of its configuration.

        Raises:
            ModelFolderError: none is known.
        """
        if (found := known_templates().get(family)) is None:
            known = ", ".join(sorted(known_templates()))
            what = f"a language model of the type {family!r}, which has no known template"
            hint = f"instruct rerankers are known of the types {known}"
            raise ModelFolderError(what, where=str(folder), hint=hint)
        return found

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of the template."""
        return json_sha256([self.parts, self.yes, self.no])

    def answers(self, tokenizer: Any, folder: Path) -> tuple[int, int]:
        """The ids of the words for yes and no.

        Raises:
            ModelFolderError: one of them is not one token.
        """
        yes, no = map(tokenizer.backend_tokenizer.token_to_id, (self.yes, self.no))
        if yes is None or no is None:
            what = f"its tokenizer has no tokens {self.yes!r} and {self.no!r}"
            raise ModelFolderError(what, where=str(folder), hint="name an instruct reranker")
        return yes, no


@lru_cache(maxsize=1)
def known_templates() -> dict[str, RerankerTemplate]:
    """The templates by model family."""
    text = resources.files(__package__).joinpath("reranker_templates.json").read_text("utf-8")
    return TypeAdapter(dict[str, RerankerTemplate]).validate_json(text)


class InstructPairs:
    """Fills a template with pairs.

    What is too long is cut from the passage, then from the question at three quarters of the
    length.

    Args:
        tokenizer: of `free_tokenizer`; from here on it takes special tokens for plain text.
        template: of the model.
        max_length: tokens of the whole, template included.

    Raises:
        ModelFolderError: the length leaves no room for a pair.
    """

    def __init__(self, tokenizer: Any, template: RerankerTemplate, max_length: int) -> None:
        self._template = template
        self._max_length = max_length
        self._fixed = {
            part: piece_ids(tokenizer, part) for part in template.parts if not _SLOT.search(part)
        }
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        taken = sum(len(self._fixed.get(part, ())) for part in template.parts)
        self._room = max_length - taken
        if self._room < 4 * len(template.parts):
            raise ModelFolderError(f"a length of {max_length} leaves no room for a pair")

    def rows(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """The row of each pair."""
        return [self._row(question, passage) for question, passage in pairs]

    def _row(self, question: str, passage: str) -> PairRow:
        both = {"question": question, "passage": passage}
        values = {slot: shortened(text, self._max_length) for slot, text in both.items()}
        pieces: list[int] = []
        left = self._room
        for part in self._template.parts:
            own = self._fixed.get(part)
            if own is None:
                # In one pass: a question that looks like a slot is not filled.
                text = _SLOT.sub(lambda slot: values[slot[1]], part)
                most = left if _PASSAGE in part else self._room * 3 // 4
                own = piece_ids(self._tokenizer, text)[:most]
                left -= len(own)
            pieces += own
        ids = np.array(pieces, dtype=np.int32)
        return PairRow(ids, np.zeros_like(ids))
