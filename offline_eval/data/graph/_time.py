"""Make questions with time constraints, and twins with years in which nothing holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np

from ._answer_sets import MOST_MISSES, Material, View, seeded, shuffled
from ._drafts import Draft, Twins
from ._facts import value_facts, year_facts
from ._graph import NO_YEAR, Span
from ._items import QuestionType

_NEAREST, _FARTHEST = 3, 30
_FAR = 10**6
Group = Callable[[], Iterator[Twins]]
Window = tuple[int, int]


def time_groups(material: Material) -> list[Group]:
    """One stream of twins per property with dated facts."""
    return [
        lambda prop=prop: _draw(material, prop)  # type: ignore[misc]
        for prop in material.properties
        if material.profiles[prop].dated
    ]


def _draw(material: Material, prop: int) -> Iterator[Twins]:
    iri = material.graph.nodes[prop]
    rng = seeded(material.settings.seed, "time", iri)
    facts = material.graph.facts[prop]
    years = np.concatenate([facts.span_starts, facts.span_ends])
    years = years[years != NO_YEAR]
    within = (int(years.min()), int(years.max())) if len(years) else (0, 0)
    view = View(prop)
    by_value = material.templates.time_choice(iri) == "value"
    misses = 0
    for subject in shuffled(np.unique(facts.span_subjects), rng):
        misses += 1
        if misses > MOST_MISSES:
            return
        asked = material.answer_set(view, subject)
        spans = facts.spans(subject)
        # A value without a known beginning may hold in any year; one that ends before it begins
        # is mistaken, nobody knows how.
        if asked is None or not all(span.start and not _reversed(span) for span in spans):
            continue
        if {span.value for span in spans} != set(asked.answers):
            continue
        single = not by_value and rng.random() < material.settings.single_years
        met = met_window(spans, single, rng)
        unmet = None if met is None else unmet_window(spans, met[0], within, rng)
        if (
            met is None
            or unmet is None
            or material.labels.same_name(met[1], set(asked.answers) - set(met[1]))
        ):
            continue
        first, last = bounds(spans)
        found = (
            value_facts(material, asked, rng)
            if by_value
            else year_facts(asked, first, last, spans, rng)
        )
        if found is not None:
            misses = 0
            yield Twins(
                Draft(QuestionType.TIME, (asked,), met[1], window=met[0]),
                Draft(QuestionType.TIME, (asked,), (), window=unmet),
                found,
            )


def bounds(spans: Sequence[Span]) -> tuple[int, int | None]:
    """The first beginning, and the last end; None where something has no end yet.

    Example:
        >>> bounds([Span(1, 1950, 1960), Span(2, 1955, None)])
        (1950, None)
    """
    ends = [span.end for span in spans]
    last = None if None in ends else max(end for end in ends if end is not None)
    return min(span.start for span in spans if span.start is not None), last


def met_window(
    spans: Sequence[Span], single: bool, rng: Random
) -> tuple[Window, tuple[int, ...]] | None:
    """Years, and what holds in them: in every one of them, and nothing else in any.

    Example:
        >>> met_window([Span(7, 1950, 1960), Span(8, 1960, None)], False, seeded(0))
        ((1950, 1959), (7,))
    """
    order = [span for span in spans if span.start is not None]
    rng.shuffle(order)
    for span in order:
        start = span.start or 1
        end = start if span.end is None else span.end
        middle = (start + end) // 2
        whole = [(start, end), (start, end - 1), (start + 1, end), (start + 1, end - 1)]
        years = [(year, year) for year in (middle, start, end)]
        for window in [*years, *whole] if single else [*whole, *years]:
            if window[0] > window[1]:
                continue
            overlapping = {one.value for one in spans if _overlaps(one, window)}
            covering = {one.value for one in spans if _covers(one, window)}
            if overlapping == covering and covering:
                return window, tuple(sorted(covering))
    return None


def unmet_window(spans: Sequence[Span], like: Window, within: Window, rng: Random) -> Window | None:
    """As many years before everything or after it; None where neither can be.

    Nothing is asked about years outside `within`, those that the graph speaks of: by its length
    or its years alone, an unanswerable question must not be told from an answerable one.
    """
    length = like[1] - like[0]
    first, last = bounds(spans)
    found = []
    room = first - length - within[0]
    if room >= _NEAREST:
        end = first - rng.randint(_NEAREST, min(_FARTHEST, room))
        found.append((end - length, end))
    room = 0 if last is None else within[1] - length - last
    if last is not None and room >= _NEAREST:
        start = last + rng.randint(_NEAREST, min(_FARTHEST, room))
        found.append((start, start + length))
    return rng.choice(found) if found else None


def _reversed(span: Span) -> bool:
    return span.start is not None and span.end is not None and span.end < span.start


def _overlaps(span: Span, window: Window) -> bool:
    return (span.start or 0) <= window[1] and (span.end or _FAR) >= window[0]


def _covers(span: Span, window: Window) -> bool:
    # Without an end, it is sure to hold in the year of its beginning only.
    end = span.start if span.end is None else span.end
    return (span.start or _FAR) <= window[0] and (end or 0) >= window[1]
