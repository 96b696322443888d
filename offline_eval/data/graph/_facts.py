"""Four-option questions on the facts behind an unanswerable question."""

from __future__ import annotations

from random import Random

from ._answer_sets import AnswerSet, Material
from ._drafts import FactDraft
from ._graph import Span

_OPTIONS = 4
_FARTHEST = 40


def value_facts(material: Material, asked: AnswerSet, rng: Random) -> tuple[FactDraft, ...] | None:
    """One question per answer; None where the graph lacks three wrong ones for one of them."""
    found = []
    by_value = material.templates.time_choice(material.graph.nodes[asked.view.prop]) == "value"
    for answer in asked.answers:
        wrong = material.wrong_answers(asked, answer, _OPTIONS - 1, rng)
        if wrong is None:
            return None
        span = None
        if by_value and not asked.view.inverse:
            spans = list(material.spans(asked.key, asked.view.prop))
            whole = [one for one in spans if one.value == answer and one.start and one.end]
            span = whole[0] if whole else None
        found.append(FactDraft(asked, answer, wrong, span=span))
    return tuple(found)


def year_facts(
    asked: AnswerSet, first: int, last: int | None, spans: tuple[Span, ...], rng: Random
) -> tuple[FactDraft, ...]:
    """Questions for the year of the beginning and, where it is known, of the end."""
    taken = {year for span in spans for year in (span.start, span.end) if year is not None}
    steps = [("begin", first)] + ([("finish", last)] if last is not None else [])
    found = []
    for step, year in steps:
        before = [one for one in range(max(1, year - _FARTHEST), year) if one not in taken]
        after = [one for one in range(year + 1, year + _FARTHEST + 1) if one not in taken]
        # In the middle of its options, a right year would be guessed.
        earlier = min(rng.randrange(_OPTIONS), len(before))
        wrong = rng.sample(before, earlier) + rng.sample(after, _OPTIONS - 1 - earlier)
        found.append(FactDraft(asked, year, tuple(wrong), step))
    return tuple(found)
