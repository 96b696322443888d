"""Headings that are questions, with what stands under them as the answer."""

from __future__ import annotations

from collections.abc import Sequence

from ._blocks import Block, BlockKind, Pair


def headed_pairs(blocks: Sequence[Block]) -> tuple[list[Block], list[Pair]]:
    """Take the FAQ entries out of a page.

    A heading that ends in a question mark is a question; its answer is all text up to
    the next heading, where that is not a deeper one.

    Returns:
        The other blocks, and the pairs.
    """
    rest: list[Block] = []
    pairs: list[Pair] = []
    topic: str | None = None
    position = 0
    while position < len(blocks):
        block = blocks[position]
        position += 1
        if block.kind is not BlockKind.HEADING or not block.text.endswith(("?", "？")):
            if block.kind is BlockKind.HEADING:
                topic = block.text
            rest.append(block)
            continue
        end = position
        while end < len(blocks) and blocks[end].kind is not BlockKind.HEADING:
            end += 1
        deeper = end < len(blocks) and blocks[end].level > block.level
        answer = _one_text(blocks[position:end])
        if deeper or not answer:
            rest.append(block)
            continue
        pairs.append(Pair(block.text, answer, topic))
        position = end
    return rest, pairs


def _one_text(blocks: Sequence[Block]) -> str:
    """The text of several blocks; items of a list are set apart."""
    text = ""
    for number, block in enumerate(blocks):
        listed = number and block.kind is blocks[number - 1].kind is BlockKind.ITEM
        seam = ";" if listed and not text.endswith((".", ";", ",", "!", "?", "。", "；")) else ""
        text += ("" if block.boilerplate else f"{seam} {block.text}") if text else block.text
    return text
