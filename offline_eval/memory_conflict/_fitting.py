"""Passages shortened to what a model reads at once, the answer's own sentences last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ._naming import sentences_of


@runtime_checkable
class WindowedModel(Protocol):
    """A model that says how many tokens it reads at once, and how many a text has."""

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and answer may have together, None when not stated."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Token ids of bare text."""
        ...


def fitted(
    fill: Callable[[Sequence[str]], str],
    passages: Sequence[str],
    kept: Sequence[Sequence[str]],
    lm: object,
    answer_tokens: int,
) -> tuple[str, bool]:
    """A prompt that fits the model's window, and whether passages were cut for it.

    Sentences are left out from the end of the longest passage, those that answer only where
    nothing else is left, and never the last of a passage: a prompt can stay too long, and the
    model then says so.

    Args:
        fill: makes the prompt from as many passages.
        passages: in full.
        kept: per passage, sentences that are to stay.
        lm: where it states its window, prompts are cut to it.
        answer_tokens: kept free for the answer.
    """
    prompt = fill(passages)
    if not isinstance(lm, WindowedModel) or lm.context_window is None:
        return prompt, False
    room = lm.context_window - answer_tokens
    size = len(lm.token_ids(prompt))
    if size <= room:
        return prompt, False
    texts = [list(sentences_of(passage)) for passage in passages]
    sizes = {text: len(lm.token_ids(text)) for sentences in texts for text in sentences}
    while any(len(sentences) > 1 for sentences in texts):
        size -= sizes[_drop(texts, kept)]
        # A count of the whole costs more than the dropping: only where it may do.
        if size <= room:
            prompt = fill([" ".join(sentences) for sentences in texts])
            size = len(lm.token_ids(prompt))
            if size <= room:
                return prompt, True
    return fill([" ".join(sentences) for sentences in texts]), True


def _drop(texts: list[list[str]], kept: Sequence[Sequence[str]]) -> str:
    """Take a sentence out of the longest text that has several; which one it was."""
    longest = max(
        (n for n, sentences in enumerate(texts) if len(sentences) > 1),
        key=lambda n: sum(map(len, texts[n])),
    )
    sentences, stay = texts[longest], set(kept[longest])
    spare = [place for place, text in enumerate(sentences) if text not in stay]
    return sentences.pop(spare[-1] if spare else -1)
