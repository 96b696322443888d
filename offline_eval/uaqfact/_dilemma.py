"""The two options that a dilemma offers, told apart in its question."""

from __future__ import annotations

from collections.abc import Iterable

_BETWEEN = (" or ", "还是")
_EDGES = " ,，?？"


def dilemma_options(question: str, known: Iterable[str], *, stem: str = "") -> tuple[str, ...]:
    """The options in the order in which they are offered; () where they cannot be told apart.

    Args:
        question: "what does X hold, A or B ?", or "…，A还是B ？".
        known: labels of which some may be options: the longest that fit are taken, so
            that an "or" within a label does no harm.
        stem: the question without its options, where known.

    Example:
        >>> dilemma_options("what is X, black or white or red ?", ["black or white"])
        ('black or white', 'red')
    """
    labels = sorted({label.strip() for label in known if label.strip()}, key=len, reverse=True)
    text = question.rstrip(_EDGES)
    stem = stem.rstrip(_EDGES)
    offered = text[len(stem) :].strip(_EDGES) if stem and text.startswith(stem) else ""
    for between in _BETWEEN:
        for second in labels:
            ending = between + second
            if text.endswith(ending):
                first = _first(text[: -len(ending)], labels, stem)
                if first:
                    return first, second
        for first in labels:
            if offered.startswith(first + between):
                return first, offered[len(first) + len(between) :].strip(_EDGES)
        if offered.count(between) == 1:
            left, _, right = offered.partition(between)
            return left.strip(_EDGES), right.strip(_EDGES)
        for first in labels:
            # A label in the middle of the question, its twin unknown.
            left, found, right = text.rpartition(first + between)
            if found and left.rstrip() != left.rstrip(_EDGES):
                return first, right.strip(_EDGES)
    return _by_comma(text)


def _first(before: str, labels: list[str], stem: str) -> str:
    for label in labels:
        if before.endswith(label):
            return label
    if stem and before.startswith(stem):
        return before[len(stem) :].strip(_EDGES)
    return _after_comma(before)


def _by_comma(text: str) -> tuple[str, ...]:
    for between in _BETWEEN:
        if text.count(between) == 1:
            left, _, right = text.partition(between)
            first = _after_comma(left)
            if first and right.strip(_EDGES):
                return first, right.strip(_EDGES)
    return ()


def _after_comma(text: str) -> str:
    # Options follow the question's last comma; one with a comma in itself needs a stem.
    for comma in (", ", "，"):
        if comma in text:
            return text.rpartition(comma)[2].strip(_EDGES)
    return ""
