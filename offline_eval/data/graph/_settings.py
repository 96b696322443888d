"""Settings of a generated set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ....guard.errors import InputError
from ._items import QuestionType

ALL_TYPES = tuple(QuestionType)
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True)
class PropertyRules:
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

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    min_facts: int = 5
    max_values: int = 5
    functional: str = "any"
    local_names: bool = False

    def __post_init__(self) -> None:
        for name in ("min_facts", "max_values"):
            if getattr(self, name) < 1:
                raise InputError("must be at least 1", where=name)
        if self.functional not in ("any", "only", "never"):
            raise InputError("must be any, only or never", where="--functional")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How many questions, of which kinds, in which languages.

    Attributes:
        languages: every question is written in all of them.
        types: of question.
        per_type: unanswerable questions of each type, and as many answerable ones.
        examples: few-shot examples of each type, half of them unanswerable; at least 4.
        rules: which properties.
        single_years: share of questions about one year among those about a time.
        seed: the same seed gives the same files.
    """

    languages: Sequence[str] = ("en",)
    types: Sequence[QuestionType] = ALL_TYPES
    per_type: int = 200
    examples: int = 8
    rules: PropertyRules = PropertyRules()
    single_years: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.languages:
            raise InputError("name at least one language", where="languages")
        if len(set(self.languages)) < len(self.languages):
            raise InputError("names a language twice", where="languages")
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise InputError(
                    f"{language!r} is no language tag", where="languages", hint="such as en or zh"
                )
        if not self.types:
            raise InputError("name at least one type", where="types")
        if self.per_type < 1:
            raise InputError("must be at least 1", where="per_type")
        if self.examples < 4 or self.examples % 2:
            raise InputError("must be an even number, at least 4", where="examples")
        if not 0 <= self.single_years <= 1:
            raise InputError("must be between 0 and 1", where="single_years")
