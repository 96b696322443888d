"""Batches of rows alike in length, in an order that the seed decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from ....guard.errors import InputError, optional_import

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One text to learn from.

    Attributes:
        ids: prompt and reply, the end token included.
        targets: how many of the last ids are the reply.
    """

    ids: tuple[int, ...]
    targets: int


class TargetTokens:
    """Encodes replies behind prompts.

    A prompt becomes one user message where the tokenizer has a chat template that is used,
    and stays as it is otherwise; then the reply follows after a space, unless the prompt ends with
    white space, and the model's end token closes it (a newline where it has none).

    Args:
        tokenizer: of the model.
        end_ids: tokens that end an answer, the usual one first; see `end_ids`.
        chat_template: whether a chat template is used.
    """

    def __init__(
        self, tokenizer: Any, end_ids: Sequence[int], *, chat_template: bool = True
    ) -> None:
        self._tokenizer = tokenizer
        self._ends = frozenset(end_ids)
        has_template = getattr(tokenizer, "chat_template", None) is not None
        self._templated = chat_template and has_template
        self._end = list(end_ids[:1]) or self._ids("\n", special=False)
        own = tokenizer.eos_token_id
        closed = self._ids("a", special=True)
        # A tokenizer made for encoders may close every text with the end token.
        self._closes = own is not None and closed[-1:] == [own]

    def encode(self, prompt: str, reply: str) -> TokenRow:
        """Token ids of the prompt, the reply and its end.

        Raises:
            InputError: the prompt or the reply is empty.
        """
        if not prompt or not reply.strip():
            raise InputError("an empty prompt or reply", where="examples", hint="leave it out")
        head, tail = (self._chat if self._templated else self._plain)(prompt, reply.strip())
        return TokenRow((*head, *tail), len(tail))

    def _plain(self, prompt: str, reply: str) -> tuple[list[int], list[int]]:
        head = self._open(prompt)
        gap = "" if prompt[-1].isspace() else " "
        whole = self._open(f"{prompt}{gap}{reply}")
        # Apart only where the tokenizer would merge across the seam.
        same = whole[: len(head)] == head
        tail = whole[len(head) :] if same else self._ids(gap + reply, special=False)
        return head, [*tail, *self._end]

    def _chat(self, prompt: str, reply: str) -> tuple[list[int], list[int]]:
        user = {"role": "user", "content": prompt}
        opened = self._template([user], asks=True)
        answered = self._template([user, {"role": "assistant", "content": reply}], asks=False)
        head = self._ids(opened, special=False)
        # Some templates write more into a finished answer than into one to be made.
        rest = answered[len(opened) :] if answered.startswith(opened) else reply
        tail = self._ids(rest, special=False)
        last = next((at for at, token in enumerate(tail) if token in self._ends), None)
        return head, [*tail, *self._end] if last is None else tail[: last + 1]

    def _template(self, messages: list[dict[str, str]], *, asks: bool) -> str:
        text: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=asks
        )
        return text

    def _open(self, text: str) -> list[int]:
        ids = self._ids(text, special=True)
        return ids[:-1] if self._closes else ids

    def _ids(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self._tokenizer(
            text, add_special_tokens=special, padding=False, truncation=False, verbose=False
        )["input_ids"]
        return list(ids)


# Rows are sorted by length within this many batches: wider saves padding, narrower mixes more.
_SORTED_TOGETHER = 8


def shuffled_batches(lengths: Sequence[int], size: int, seed: str) -> list[list[int]]:
    """Every row's number once, in batches of `size`; the last one made may be smaller.

    Args:
        lengths: tokens of each row.
        size: rows per batch.
        seed: decides which rows meet and in which order the batches come.
    """
    rng = Random(seed)  # noqa: S311 - no secret
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), size * _SORTED_TOGETHER):
        window = sorted(order[start : start + size * _SORTED_TOGETHER], key=lambda at: lengths[at])
        batches += [window[at : at + size] for at in range(0, len(window), size)]
    rng.shuffle(batches)
    return batches


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Rows padded on the left, so that all replies end together.

    Attributes:
        ids: of shape (rows, longest).
        mask: 1 on tokens, 0 on padding, same shape.
        targets: of shape (rows, longest reply), True on a reply's tokens.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor


def pad_rows(rows: Sequence[TokenRow], device: torch.device) -> TokenBatch:
    """Token rows as tensors on `device`."""
    library = optional_import("torch")
    longest = max(len(row.ids) for row in rows)
    replies = max(row.targets for row in rows)
    ids = library.zeros(len(rows), longest, dtype=library.long)
    mask = library.zeros(len(rows), longest, dtype=library.long)
    targets = library.zeros(len(rows), replies, dtype=library.bool)
    for number, row in enumerate(rows):
        ids[number, longest - len(row.ids) :] = library.tensor(row.ids)
        mask[number, longest - len(row.ids) :] = 1
        targets[number, replies - row.targets :] = True
    return TokenBatch(ids.to(device), mask.to(device), targets.to(device))
