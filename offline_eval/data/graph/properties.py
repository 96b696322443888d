"""Settings of a generated set, and the properties that its questions are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ....guard.errors import InputError
from ....guard.read_models import CheckedSettings
from ..rules import Rules
from .graph import (
    ALIASES,
    LABELS,
    VOCABULARIES,
    Facts,
    Kind,
    KnowledgeGraph,
    Labels,
    clean_name,
    local_name,
    words_of,
)
from .question_templates import Templates

_FUNCTIONAL_SHARE = 0.95
_SAMPLE = 500
_RULES = Rules(__file__, "properties")


_Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$")]


class PropertyRules(CheckedSettings, BaseModel, extra="forbid", frozen=True):
    """Which properties questions are made of.

    Attributes:
        include: only these, by IRI or by the last part of it; all by default.
        exclude: never these, likewise.
        min_facts: fewest facts of a property.
        max_values: most answers that one question may have: a subject with more values of a
            property is not asked about.
        functional: `only` properties of which almost every subject has one value, `never`
            those, or `any`.
        local_names: take `placeOfBirth` for the label "place of birth" where a property has
            no label.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_facts: int = Field(5, ge=1)
    max_values: int = Field(5, ge=1)
    functional: Literal["any", "only", "never"] = "any"
    local_names: bool = False


class GenerationSettings(CheckedSettings, BaseModel, extra="forbid", frozen=True):
    """How many questions, of which kinds, in which languages.

    Attributes:
        languages: every question is written in all of them.
        per_type: unanswerable questions of each type, and as many answerable ones.
        examples: few-shot examples of each type, half of them unanswerable; at least 4.
        rules: which properties.
        seed: the same seed gives the same files.
    """

    languages: Annotated[tuple[_Language, ...], Field(min_length=1)] = ("en",)
    per_type: int = 200
    examples: int = Field(8, ge=4, multiple_of=2)
    rules: PropertyRules = PropertyRules()
    seed: int = 0


class PropertyProfile:
    """A property as the rules see it.

    Args:
        iri: its IRI.
        found: its facts.
        labels: by language; empty where there is none.
        classes: IRIs of the values' classes, the commonest first.

    Attributes:
        kind: of its values.
        facts, subjects, values: how many there are, each counted once.
        values_per_subject: on average.
        functional: whether almost every subject has one value.
        dated: facts with a year in which they begin.
        left_out: why no questions are made of it; empty where they are.
    """

    def __init__(
        self, iri: str, found: Facts, labels: Mapping[str, str], classes: Sequence[str]
    ) -> None:
        counts = [len(values) for values in found.by_subject.values()]
        self.iri, self.labels, self.classes = iri, labels, classes
        self.kind, self.left_out = found.kind, ""
        self.facts, self.subjects = len(found.pairs), len(counts)
        self.values = len(found.by_value)
        self.values_per_subject = len(found.pairs) / len(counts)
        self.functional = counts.count(1) >= _FUNCTIONAL_SHARE * len(counts)
        self.dated = sum(one.start is not None for spans in found.dated.values() for one in spans)

    @property
    def usable(self) -> bool:
        """Whether questions are made of it."""
        return not self.left_out

    def __str__(self) -> str:
        labels = " · ".join(dict.fromkeys(label for label in self.labels.values() if label))
        parts = [
            f"{self.facts:,} facts",
            f"{self.values_per_subject:.2f} a subject",
            f"values: {self.kind.name.lower()}",
        ]
        if self.dated:
            parts.append(f"{self.dated:,} dated")
        named = f"{self.iri} ({labels})" if labels else self.iri
        return f"{named}: {self.left_out or ', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Return what the user is shown of it."""
        plain = ("iri", "facts", "subjects", "values_per_subject", "functional", "dated")
        return {name: getattr(self, name) for name in plain} | {
            "labels": dict(self.labels),
            "values": self.kind.name.lower(),
            "used": self.usable,
            "left_out": self.left_out or None,
        }


def profile_properties(
    graph: KnowledgeGraph, labels: Labels, templates: Templates, settings: GenerationSettings
) -> list[PropertyProfile]:
    """All properties of a graph, those with most facts first.

    Raises:
        InputError: an entry of `include` names no property of the graph.
    """
    rules, found = settings.rules, []
    for iri, facts in graph.facts.items():
        own = words_of(local_name(iri)) if rules.local_names else ""
        named = {
            language: clean_name(templates.label(iri, language))
            or labels.label(iri, language)
            or own
            for language in settings.languages
        }
        profile = PropertyProfile(iri, facts, named, _classes(graph, facts))
        profile.left_out = _reason(graph, templates, rules, profile)
        some = facts.values[:: max(1, len(facts.values) // _SAMPLE)]
        # Such as web pages, and entities that the graph only mentions.
        if not profile.left_out and not any(labels.fit(value) for value in some):
            profile.left_out = "its values have no names"
        found.append(profile)
    for name in rules.include:
        if not any(_is_named(profile.iri, [name]) for profile in found):
            hint = "--dry-run without --include lists them"
            raise InputError(f"the graph has no property {name!r}", where="--include", hint=hint)
    return sorted(found, key=lambda profile: (-profile.facts, profile.iri))


def _classes(graph: KnowledgeGraph, facts: Facts) -> tuple[str, ...]:
    """The commonest classes of the values, first of all of a sample of facts."""
    step = max(1, len(facts.pairs) // _SAMPLE)
    counts = Counter(
        name for _, value in facts.pairs[::step] for name in graph.classes.get(value, ())
    )
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))[:5])


def _reason(
    graph: KnowledgeGraph, templates: Templates, rules: PropertyRules, found: PropertyProfile
) -> str:
    iri = found.iri
    if _is_named(iri, rules.exclude):
        return "excluded by name"
    if rules.include and not _is_named(iri, rules.include):
        return "not among those included"
    if iri.startswith(VOCABULARIES) or iri in LABELS or iri in ALIASES:
        return "part of the vocabulary"
    chosen = _is_named(iri, rules.include) or templates.names(iri)
    texts = [*found.labels.values(), words_of(local_name(iri))]
    missing = [language for language, label in found.labels.items() if not label]
    reasons = {
        "identifier, address or picture": not chosen
        and (iri in graph.identifiers or any(_RULES.finds(text, "identifier") for text in texts)),
        "its values are texts": found.kind in (Kind.TEXT, Kind.BLANK),
        f"no label in: {', '.join(missing)}": bool(missing),
        f"fewer than {rules.min_facts} facts": found.facts < rules.min_facts,
        "several values a subject": rules.functional == "only" and not found.functional,
        "one value a subject": rules.functional == "never" and found.functional,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_named(iri: str, names: Sequence[str]) -> bool:
    return iri in names or local_name(iri) in names
