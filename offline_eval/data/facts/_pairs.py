"""Find pairs in plain text: `Q: …` and `A: …`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ._blocks import Block, BlockKind, Pair, joined

_QUESTION = re.compile(
    r"^\s*(?:\*\*|__)?(?:(?:Q|Question)\s*\d{0,3}\s*[.:)：]|(?:问题?|問題?)\s*\d{0,3}\s*[:：])\s*",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"^\s*(?:\*\*|__)?(?:(?:A|Ans|Answer)\s*\d{0,3}\s*[.:)：]|(?:答案?|回答)\s*\d{0,3}\s*[:：])\s*",
    re.IGNORECASE,
)


def text_pairs(lines: Iterable[str]) -> tuple[list[str], list[Pair]]:
    """Take pairs out of plain text.

    A question begins with `Q:` (or `Q1.`, `Question 2:`, `问：`), its answer with `A:`
    (or `Answer:`, `答：`) and ends at a blank line or the next question.

    Returns:
        The other lines, and the pairs.
    """
    rest: list[str] = []
    pairs: list[Pair] = []
    question: list[str] = []
    answer: list[str] | None = None
    raw: list[str] = []

    def close() -> None:
        nonlocal answer
        asked, told = joined(question).strip("*_ "), joined(answer or []).strip("*_ ")
        if asked and told:
            pairs.append(Pair(asked, told))
        else:
            rest.extend(raw)
        question.clear()
        raw.clear()
        answer = None

    for line in lines:
        if mark := _QUESTION.match(line):
            close()
            question.append(line[mark.end() :])
            raw.append(line)
        elif question and answer is None and (mark := _ANSWER.match(line)):
            answer = [line[mark.end() :]]
            raw.append(line)
        elif question and (line.strip() or answer is None):
            (question if answer is None else answer).append(line)
            raw.append(line)
        elif question:
            close()
            rest.append(line)
        else:
            rest.append(line)
    close()
    return rest, pairs


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
