"""From a prompt and the wanted reply to token ids, as a served model meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...guard import InputError


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

    A prompt becomes one user message where the tokenizer has a chat template, and stays as
    it is otherwise; then the reply follows after a space, unless the prompt ends with
    white space, and the model's end token closes it (a newline where it has none).

    Args:
        tokenizer: of the model.
        end_ids: tokens that end an answer, the usual one first; see `end_ids`.
    """

    def __init__(self, tokenizer: Any, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._ends = frozenset(end_ids)
        self._templated = getattr(tokenizer, "chat_template", None) is not None
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
            raise InputError("an empty prompt or reply", where="examples", mend="leave it out")
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


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Tokens that end an answer, the usual one first; none where nothing names one.

    Generation settings count before the tokenizer: they may end an answer where a text
    goes on, for example at a newline. Where they list several, the tokenizer's is the usual.
    """
    found: dict[int, None] = {}
    own = tokenizer.eos_token_id
    for holder in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(holder, "eos_token_id", None)
        listed = [value] if isinstance(value, int) else list(value or ())
        for token in sorted(listed, key=lambda token: token != own):
            found.setdefault(int(token))
    return tuple(found)
