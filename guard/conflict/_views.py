"""Putting together answers of the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._conflict_finding import View

# Two answers → whether they count as one.
Sameness = Callable[[str, str], bool]

# An answer, the indices of the passages that gave it, whether it is the closed-book one.
Said = tuple[str, tuple[int, ...], bool]


def views_of(
    question: str, said: Sequence[Said], same: Sameness, refuses: Callable[[str], bool]
) -> list[View]:
    """One view per meaning, in the order in which the meanings first appear.

    An answer joins the first view of which it is the same as every answer. So any
    two answers that differ are in different views, whatever the order, even where
    a vaguer third is the same as both ("1972" beside two days of that year).

    Args:
        question: that was asked; given to a `same` that has a method `about`.
        said: the answers; empty ones and refusals are nobody's view.
        same: when two answers count as one.
        refuses: when an answer says that there is none.
    """
    about = getattr(same, "about", None)
    equal: Sameness = same if about is None else about(question)
    groups: list[list[Said]] = []
    for one in said:
        if not one[0].strip() or refuses(one[0]):
            continue
        home = next((g for g in groups if all(equal(other[0], one[0]) for other in g)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return [_view(group) for group in groups]


def _view(group: Sequence[Said]) -> View:
    passages = sorted({index for _, indices, _ in group for index in indices})
    return View(group[0][0].strip(), tuple(passages), any(memory for _, _, memory in group))
