"""Draw twins from a graph: a question with an answer, and one as alike as can be that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations, product, starmap
from random import Random
from typing import NamedTuple

from .graph import Kind, KnowledgeGraph, Labels, Span
from .items import QuestionType
from .properties import GenerationSettings, profile_properties
from .question_templates import Templates

_WRONG_TRIES = 80


class AnswerSet(NamedTuple):
    """Everything that answers one plain question.

    Attributes:
        prop: the property that is asked for.
        key: of which subject.
        answers: ascending; never empty.
    """

    prop: str
    key: str
    answers: tuple[str, ...]


class Draft(NamedTuple):
    """One question, before it is worded in a language.

    Attributes:
        type: of question; of one on a fact, that of the question whose fact it is.
        parts: the plain questions behind it: two of an intersection, else one.
        answers: empty exactly where it is unanswerable; nodes, or the year asked for.
        options: the two of a dilemma, or the four of a question on a fact, in order; the right one,
            where there is one, comes first until the pair is taken.
        window: the years asked about, of a question about a time; of one on a fact, those in which
            the value holds, where they are part of it.
        step: of a question on a fact: `value`, or the year in which something first was so
            (`begin`) or last was so (`finish`).
    """

    type: QuestionType
    parts: tuple[AnswerSet, ...]
    answers: tuple[str, ...]
    options: tuple[str, ...] = ()
    window: tuple[int, int] | None = None
    step: str = ""


# An answerable question; an unanswerable one, as alike as can be; and the facts behind that one, as
# four-option questions.
Twins = tuple[Draft, Draft, tuple[Draft, ...]]


class Material:
    """A graph with what is needed to draw questions from it.

    Args:
        graph: where the facts come from.
        settings: how many and which.
        templates: wordings.

    Attributes:
        labels: names of the graph's nodes.
        properties: all of the graph.
        profiles: those that questions are made of, by IRI.

    Raises:
        InputError: a language without templates, or a property that the graph lacks.
    """

    def __init__(
        self, graph: KnowledgeGraph, settings: GenerationSettings, templates: Templates
    ) -> None:
        for language in settings.languages:
            templates.require(language)
        self.graph, self.settings, self.templates = graph, settings, templates
        self.labels = Labels(graph, settings.languages)
        self.properties = profile_properties(graph, self.labels, templates, settings)
        usable = {profile.iri: profile for profile in self.properties if profile.usable}
        self.profiles = dict(sorted(usable.items()))

    def answer_set(self, prop: str, key: str) -> AnswerSet | None:
        """Return all answers for a key.

        None where they are too many, not all known or not all named, or where the key is
        nameless or has a namesake.
        """
        facts = self.graph.facts[prop]
        answers = () if key in facts.doubtful else facts.by_subject.get(key, ())
        known = 0 < len(answers) <= self.settings.rules.max_values and key not in answers
        named = known and all(map(self.labels.fit, (key, *answers)))
        return AnswerSet(prop, key, answers) if named and self.labels.unique(key) else None

    def spans(self, subject: str, prop: str) -> tuple[Span, ...]:
        """Return when the values of a subject hold, where the graph says it."""
        return self.graph.facts[prop].dated.get(subject, ())

    def wrong_answers(
        self, asked: AnswerSet, like: str, number: int, rng: Random
    ) -> tuple[str, ...] | None:
        """Draw values of the same kind that are not true; None where there are not so many.

        Of the same kind: they answer the same question about something else and are, where the
        graph says it, of a class of `like`. Not true: no fact of any property links them with
        what is asked about or with an answer (of which they may be a part, or it of them), and
        none of their names overlaps with an answer's.
        """
        pool, known = self.graph.facts[asked.prop].values, (asked.key, *asked.answers)
        classes = self.graph.classes
        alike, picked = classes.get(like), list[str]()
        for _ in range(_WRONG_TRIES):
            node = pool[rng.randrange(len(pool))]
            if not (
                node in (*known, *picked)
                or any(self.graph.are_linked(node, other) for other in known)
                or (alike and alike.isdisjoint(classes.get(node, ())))
                or not self.labels.fit(node)
                or any(self.labels.overlap(node, other) for other in (*asked.answers, *picked))
            ):
                picked.append(node)
            if len(picked) == number:
                return tuple(picked)
        return None


def shuffled(values: Iterable[str], rng: Random) -> list[str]:
    """Return a copy in random order."""
    found = list(values)
    rng.shuffle(found)
    return found


def seeded(*parts: object) -> Random:
    """Make a generator of its own for every purpose; the same in every process."""
    return Random("/".join(str(part) for part in parts))  # noqa: S311


_OPTIONS = 4
_FARTHEST_OPTION = 40
_TRIES = 30
_ROUNDS = 3
# Share of questions about one year among those about a time.
_SINGLE_YEARS = 0.25
_MOST_PROPERTIES = 200
_NEAREST, _FARTHEST = 3, 30
_FAR = 10**6
Group = Callable[[], Iterator[Twins | None]]
Window = tuple[int, int]


def groups_of(kind: QuestionType, material: Material) -> list[Group]:
    """Return what came of draws, a stream per property, or per pair of properties that meet."""
    if kind is QuestionType.INTER:
        return [partial(_intersections, material, *pair) for pair in _meeting(material)]
    if kind is QuestionType.TIME:
        return [
            partial(_dated, material, prop)
            for prop, profile in material.profiles.items()
            if profile.dated
        ]
    return [partial(_dilemmas, material, prop) for prop in material.profiles]


# --- four-option questions on the facts behind an unanswerable question -------------------------


def value_facts(
    kind: QuestionType, material: Material, asked: AnswerSet, rng: Random
) -> tuple[Draft, ...] | None:
    """Make one question per answer; None where the graph lacks wrong ones for one of them."""
    found = []
    by_value = material.templates.time_choice(asked.prop) == "value"
    for answer in asked.answers:
        wrong = material.wrong_answers(asked, answer, _OPTIONS - 1, rng)
        if wrong is None:
            return None
        whole = (
            (one.start, one.end)
            for one in material.spans(asked.key, asked.prop)
            if by_value and one.value == answer and one.start and one.end
        )
        options, window = (answer, *wrong), next(whole, None)
        found.append(Draft(kind, (asked,), (answer,), options, window, "value"))
    return tuple(found)


def year_facts(asked: AnswerSet, spans: Sequence[Span], rng: Random) -> tuple[Draft, ...]:
    """Ask for the year of the beginning and, where it is known, of the end."""
    taken = {year for span in spans for year in (span.start, span.end) if year is not None}
    found = []
    for step, year in zip(("begin", "finish"), bounds(spans), strict=True):
        if year is None:
            continue
        before = [one for one in range(max(1, year - _FARTHEST_OPTION), year) if one not in taken]
        after = [one for one in range(year + 1, year + _FARTHEST_OPTION + 1) if one not in taken]
        # In the middle of its options, a right year would be guessed.
        earlier = min(rng.randrange(_OPTIONS), len(before))
        wrong = rng.sample(before, earlier) + rng.sample(after, _OPTIONS - 1 - earlier)
        options = tuple(map(str, (year, *wrong)))
        found.append(Draft(QuestionType.TIME, (asked,), options[:1], options, step=step))
    return tuple(found)


# --- intersections of two answer sets, and twins whose intersection is empty --------------------


def _meeting(material: Material) -> Iterator[tuple[str, str]]:
    """Pairs of properties with an answer in common."""
    facts = material.graph.facts
    props = [prop for prop, one in material.profiles.items() if one.kind is Kind.ENTITY]
    # Those with most answers: pairs grow with the square.
    props.sort(key=lambda prop: (-len(facts[prop].values), prop))
    members = {prop: frozenset(facts[prop].values) for prop in sorted(props[:_MOST_PROPERTIES])}
    for one, other in combinations(members, 2):
        if not members[one].isdisjoint(members[other]):
            yield one, other


def _intersections(material: Material, one: str, other: str) -> Iterator[Twins | None]:
    rng = seeded(material.settings.seed, "inter", one, other)
    told = material.graph.facts
    shared = sorted(set(told[one].values).intersection(told[other].values))

    def twins_at(node: str) -> Twins | None:
        first = _holding(material, one, node, rng)
        second = _holding(material, other, node, rng)
        if first is None or second is None or first.key == second.key:
            return None
        common = tuple(sorted(set(first.answers) & set(second.answers)))
        rivals = (set(first.answers) | set(second.answers)) - set(common)
        if material.labels.same_name(common, rivals) or {first.key, second.key} & set(common):
            return None
        empty = _disjoint(material, first, other, node, shared, rng)
        if empty is None or empty.key == second.key:
            return None
        facts = [value_facts(QuestionType.INTER, material, part, rng) for part in (first, empty)]
        if None in facts:
            return None
        return (
            Draft(QuestionType.INTER, (first, second), common),
            Draft(QuestionType.INTER, (first, empty), ()),
            tuple(fact for found in facts for fact in found or ()),
        )

    # A common answer has, as a rule, several pairs of questions to it.
    nodes = (node for _ in range(_ROUNDS) for node in shuffled(shared, rng))
    return map(twins_at, nodes)


def _holding(material: Material, prop: str, node: str, rng: Random) -> AnswerSet | None:
    """An answer set with `node` in it."""
    keys = material.graph.facts[prop].by_value.get(node, ())
    return material.answer_set(prop, keys[rng.randrange(len(keys))]) if keys else None


def _disjoint(
    material: Material, first: AnswerSet, other: str, like: str, shared: Sequence[str], rng: Random
) -> AnswerSet | None:
    """A set of the same kind that has nothing in common with the first, by any fact or name.

    Drawn as the set that it takes the place of, from `shared`, the answers that both properties
    have: or keys with many answers would stand in answerable questions more often.
    """
    graph = material.graph
    classes = graph.classes.get(like)
    for _ in range(_TRIES):
        node = shared[rng.randrange(len(shared))]
        found = None if node in first.answers else _holding(material, other, node, rng)
        if found is None or found.key in (first.key, *first.answers):
            continue
        unlike = classes and all(
            classes.isdisjoint(graph.classes.get(answer, ())) for answer in found.answers
        )
        # A fact of another property may say the same, such as a subproperty or an inverse.
        links = product([first.key], found.answers), product([found.key], first.answers)
        linked = any(graph.are_linked(*pair) for pair in chain(*links))
        if first.key in found.answers or unlike or linked:
            continue
        if not material.labels.same_name(first.answers, found.answers):
            return found
    return None


# --- two options, of which one is right or, in the twin, neither ---------------------------------


def _dilemmas(material: Material, prop: str) -> Iterator[Twins | None]:
    """Options must not tell the twins apart: right answers are drawn as wrong ones are.

    That is from all values alike. Drawn from all facts alike, the commonest values would stand
    in answerable questions only.
    """
    rng = seeded(material.settings.seed, "dilemma", prop)

    def twins_of(subject: str, right: str) -> Twins | None:
        asked = material.answer_set(prop, subject)
        wrong = None if asked is None else material.wrong_answers(asked, right, 2, rng)
        if asked is None or wrong is None:
            return None
        draft = Draft(QuestionType.DILEMMA, (asked,), (right,), (right, wrong[0]))
        facts = value_facts(draft.type, material, asked, rng)
        empty = draft._replace(answers=(), options=tuple(shuffled(wrong, rng)))
        return (draft, empty, facts) if facts else None

    return starmap(twins_of, _by_value(material, prop, rng))


def _by_value(material: Material, prop: str, rng: Random) -> Iterator[tuple[str, str]]:
    """Subjects, each once, and one of their values: every value as likely as any other.

    Were subjects drawn instead, the commoner of two options would mostly be the right one.
    """
    values = list(material.graph.facts[prop].values)
    # Of each value: how many of its subjects had their turn, and which was the first.
    turns: dict[str, tuple[int, int]] = {}
    asked: set[str] = set()
    while values:
        at = rng.randrange(len(values))
        value = values[at]
        holders = material.graph.facts[prop].by_value[value]
        done, start = turns.get(value) or (0, rng.randrange(len(holders)))
        subject = holders[(start + done) % len(holders)]
        turns[value] = done + 1, start
        if done + 1 == len(holders):
            values[at] = values[-1]
            values.pop()
        if subject not in asked:
            asked.add(subject)
            yield subject, value


# --- constraints of time, and twins with years in which nothing holds ----------------------------


def _dated(material: Material, prop: str) -> Iterator[Twins | None]:
    rng = seeded(material.settings.seed, "time", prop)
    dated = material.graph.facts[prop].dated
    years = [year for spans in dated.values() for span in spans for year in span[1:] if year]
    within = (min(years, default=0), max(years, default=0))
    by_value = material.templates.time_choice(prop) == "value"

    def twins_of(subject: str) -> Twins | None:
        asked, spans = material.answer_set(prop, subject), dated[subject]
        # A value without a known beginning may hold in any year; one that ends before it begins
        # is mistaken, nobody knows how.
        if asked is None or not all(
            span.start and (span.end is None or span.end >= span.start) for span in spans
        ):
            return None
        if {span.value for span in spans} != set(asked.answers):
            return None
        single = not by_value and rng.random() < _SINGLE_YEARS
        met = met_window(spans, single, rng)
        unmet = None if met is None else unmet_window(spans, met[0], within, rng)
        if met is None or unmet is None:
            return None
        if material.labels.same_name(met[1], set(asked.answers) - set(met[1])):
            return None
        draft = Draft(QuestionType.TIME, (asked,), met[1], window=met[0])
        empty = draft._replace(answers=(), window=unmet)
        facts = None if by_value else year_facts(asked, spans, rng)
        facts = facts or value_facts(draft.type, material, asked, rng)
        return (draft, empty, facts) if facts else None

    return map(twins_of, shuffled(sorted(dated), rng))


def bounds(spans: Sequence[Span]) -> tuple[int, int | None]:
    """Return the first beginning, and the last end; None where something has no end yet.

    Example:
        >>> bounds([Span("a", 1950, 1960), Span("b", 1955, None)])
        (1950, None)
    """
    ends = [span.end for span in spans]
    last = None if None in ends else max(end for end in ends if end is not None)
    return min(span.start for span in spans if span.start is not None), last


def met_window(
    spans: Sequence[Span],
    single: bool,
    rng: Random,
) -> tuple[Window, tuple[str, ...]] | None:
    """Draw years, and say what holds in them: in every one of them, and nothing else in any.

    Example:
        >>> met_window([Span("a", 1950, 1960), Span("b", 1960, None)], False, seeded(0))
        ((1950, 1959), ('a',))
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
    """Draw as many years before everything or after it; None where neither can be.

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


def _overlaps(span: Span, window: Window) -> bool:
    return (span.start or 0) <= window[1] and (span.end or _FAR) >= window[0]


def _covers(span: Span, window: Window) -> bool:
    # Without an end, it is sure to hold in the year of its beginning only.
    end = span.start if span.end is None else span.end
    return (span.start or _FAR) <= window[0] and (end or 0) >= window[1]
