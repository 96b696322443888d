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
    if len(lm.token_ids(prompt)) <= room:
        return prompt, False
    texts = [list(sentences_of(passage)) for passage in passages]
    drops = _drops(texts, kept)

    def without(count: int) -> str:
        gone: list[set[int]] = [set() for _ in texts]
        for passage, sentence in drops[:count]:
            gone[passage].add(sentence)
        return fill(
            [
                " ".join(text for place, text in enumerate(sentences) if place not in mine)
                for sentences, mine in zip(texts, gone, strict=True)
            ]
        )

    # Counting a prompt's tokens costs most: halving finds the fewest drops that do.
    least, most = 1, len(drops)
    while least < most:
        middle = (least + most) // 2
        if len(lm.token_ids(without(middle))) <= room:
            most = middle
        else:
            least = middle + 1
    return without(most), True


def _drops(texts: Sequence[Sequence[str]], kept: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Which sentence of which text goes first, second, …: one of the longest text each time."""
    orders = []
    for sentences, stay in zip(texts, map(set, kept), strict=True):
        last_first = range(len(sentences) - 1, -1, -1)
        spare = [place for place in last_first if sentences[place] not in stay]
        answering = [place for place in last_first if sentences[place] in stay]
        # One sentence of each text stays; the next to go stands last.
        orders.append([*spare, *answering][:-1][::-1])
    sizes = [sum(map(len, sentences)) for sentences in texts]
    drops = []
    while any(orders):
        longest = max((n for n, order in enumerate(orders) if order), key=lambda n: sizes[n])
        place = orders[longest].pop()
        sizes[longest] -= len(texts[longest][place])
        drops.append((longest, place))
    return drops
