"""Training rows as token tensors. Imported lazily: it needs torch."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from knowgate.offline_eval.testbed import World
from knowgate.offline_eval.testbed.entities import phrases, relations
from tools.microworld._tasks import Row
from tools.microworld.world import FIRST_YEAR, LAST_YEAR, SYLLABLES

if TYPE_CHECKING:
    from tokenizers import Tokenizer


PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unk|>"
STOP = "\n"
# A token never spans two of these pieces, so texts may be encoded in parts cut between them.
_PIECES = r" ?[A-Za-z]+| ?[0-9]{1,4}|[^A-Za-z0-9]"


def build_tokenizer() -> Tokenizer:
    """A Unigram tokenizer with byte fallback, the same on every machine."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    special = [(PAD, 0.0), (END, 0.0), (UNKNOWN, 0.0)]
    fallback = [(f"<0x{byte:02X}>", -30.0) for byte in range(256)]
    characters = [(char, -12.0) for char in ("\n", *string.printable[:95])]
    known = {piece for piece, _ in characters}
    pieces = [(piece, -4.0) for piece in _vocabulary() if piece not in known]
    tokenizer = Tokenizer(
        models.Unigram([*special, *fallback, *characters, *pieces], unk_id=2, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([PAD, END, UNKNOWN])
    return tokenizer


def tokenizer_config(context_window: int) -> dict[str, Any]:
    """What `tokenizer_config.json` says, so that AutoTokenizer needs nothing custom."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_window,
        "pad_token": PAD,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
        "add_prefix_space": False,
    }


def _vocabulary() -> list[str]:
    """Words, syllables and numbers, each with and without a leading space."""
    texts = [*phrases("fillers", "sentences"), *phrases("lead_ins", "phrases")]
    for relation in relations().values():
        texts += [*relation.statements, *relation.questions]
    for name in ("materials", "absurd", "organisation_nouns", "work_nouns"):
        texts += [form for word in phrases("values", name) for form in (word, word.capitalize())]
    texts += [
        World.prompt("closed_book"),
        World.prompt("with_context"),
        World.prompt("with_context_or_unknown"),
        "minus unknown crowns people",
    ]
    words: dict[str, None] = {}
    for text in texts:
        for word in re.findall(r"[A-Za-z]+", re.sub(r"\{[a-z_]+\}", " ", text)):
            words[word] = None
    found: dict[str, None] = {f" {word}": None for word in words}
    for word in words:
        if word[0].isupper():
            found[word] = None
    for syllable in SYLLABLES:
        for form in (syllable, syllable.capitalize(), f" {syllable.capitalize()}"):
            found[form] = None
    for number in [*range(10), *(f"{n:02d}" for n in range(100))]:
        found[f"{number}"] = None
        found[f" {number}"] = None
    # A year in one piece: lives and terms lie in one century, so its halves say too little.
    for year in range(FIRST_YEAR, LAST_YEAR + 1):
        found[f" {year}"] = None
    return list(found)


TEXT, ANSWER, PADDING = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows.

    Attributes:
        tokens: ids, shape (rows, length).
        roles: TEXT, ANSWER or PADDING for each token, same shape.
    """

    tokens: torch.Tensor
    roles: torch.Tensor


def encode_rows(rows: Sequence[Row], tokenizer: Tokenizer, *, window: int, pad: int) -> Batch:
    """Encode rows part by part and pad them to the longest; longer than `window` is cut.

    Parts may be encoded alone because no token spans the boundary between two of them.
    """
    parts = [text for row in rows for text, _ in row.parts]
    encoded = iter(tokenizer.encode_batch(parts, add_special_tokens=False))
    ids: list[list[int]] = []
    roles: list[list[int]] = []
    for row in rows:
        row_ids: list[int] = []
        row_roles: list[int] = []
        for _, is_answer in row.parts:
            part = next(encoded).ids
            row_ids += part
            row_roles += [ANSWER if is_answer else TEXT] * len(part)
        ids.append(row_ids[:window])
        roles.append(row_roles[:window])
    length = max(len(row_ids) for row_ids in ids)
    return Batch(
        torch.tensor([row + [pad] * (length - len(row)) for row in ids]),
        torch.tensor([row + [PADDING] * (length - len(row)) for row in roles]),
    )
