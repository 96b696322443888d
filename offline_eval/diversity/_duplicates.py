"""Questions that stand there twice, word for word or nearly so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._keywords import Progress, keyword_distinct
from ._words import numbers_of, words_of


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A text that says what an earlier one says.

    Attributes:
        index: of the text.
        of: index of the earlier text, which is kept.
        exact: equal but for case, accents, punctuation and white space.
        uniqueness: of its words beside those of the earlier one; 0.0 for an exact one.
    """

    index: int
    of: int
    exact: bool
    uniqueness: float


def remove_duplicates(
    texts: Sequence[str], *, near: float = 0.05, on_progress: Progress | None = None
) -> tuple[list[int], list[Duplicate]]:
    """Indices of the texts that are left, and the duplicates among all, in order.

    Of equal texts the first is kept. Nearly equal are texts whose words share all but
    `near` of their information (see `keyword_uniqueness`) and which name the same
    numbers: the same words in another order, or one small word more.

    Args:
        texts: any number.
        near: in [0, 1]; 0 removes exact duplicates and nothing more.
        on_progress: called with (texts done, texts in all).

    Example:
        >>> remove_duplicates(["Who pays?", "who pays", "Who pays 5?"])[0]
        [0, 2]
    """
    first: dict[str, int] = {}
    found: list[Duplicate] = []
    for index, text in enumerate(texts):
        key = " ".join(words_of(text)) or " ".join(text.split())
        earlier = first.setdefault(key, index)
        if earlier != index:
            found.append(Duplicate(index, earlier, exact=True, uniqueness=0.0))
    left = list(first.values())
    if near > 0.0:
        close = _near(texts, left, near, on_progress)
        found.extend(close)
        gone = {one.index for one in close}
        left = [index for index in left if index not in gone]
    return left, sorted(found, key=lambda one: one.index)


def _near(
    texts: Sequence[str], left: Sequence[int], near: float, on_progress: Progress | None
) -> list[Duplicate]:
    some = [texts[index] for index in left]
    # Texts with other numbers are not compared: "by 2023" is not "by 2024".
    found = keyword_distinct(
        some,
        min_uniqueness=near,
        groups=[numbers_of(text) for text in some],
        on_progress=on_progress,
    )
    kept = set(found.kept.tolist())
    return [
        Duplicate(
            index, left[found.nearest[row]], exact=False, uniqueness=float(found.uniqueness[row])
        )
        for row, index in enumerate(left)
        if row not in kept
    ]
