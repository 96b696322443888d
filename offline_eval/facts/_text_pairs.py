"""Pairs in plain text: `Q: …` and `A: …`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ._blocks import Pair
from ._lines import joined

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
