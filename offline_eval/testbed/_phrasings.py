"""Relations, their phrasings and the closed lists of values, read from `phrasings.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ._entities import EntityKind, ValueKind

_FOLDER = Path(__file__).parent
PromptName = Literal["closed_book", "with_context", "with_context_or_unknown"]


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation with every way to state it and to ask for it.

    Attributes:
        name: its key.
        subject_kind: what it is about.
        value_kind: what answers it.
        time_bounded: whether its facts hold from one year to another.
        statements: sentence templates; the last `held_out_statements` are kept from training.
        questions: question templates; the last `held_out_questions` are kept from training.
        held_out_statements: how many statements are held out.
        held_out_questions: how many questions are held out.
    """

    name: str
    subject_kind: EntityKind
    value_kind: ValueKind
    time_bounded: bool
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    held_out_statements: int
    held_out_questions: int

    @property
    def training_statements(self) -> tuple[str, ...]:
        """The statement templates that training may use."""
        return self.statements[: -self.held_out_statements]

    @property
    def training_questions(self) -> tuple[str, ...]:
        """The question templates that training may use."""
        return self.questions[: -self.held_out_questions]

    def state(
        self, phrasing: int, subject: str, value: str, start: int | None, end: int | None
    ) -> str:
        """One sentence that states a fact, in phrasing number `phrasing`."""
        template = self.statements[phrasing]
        text = template.format(s=subject, v=value, start=start, end=end)
        return text[0].upper() + text[1:]

    def ask(self, phrasing: int, subject: str, start: int | None, end: int | None) -> str:
        """One question for the value, in phrasing number `phrasing`."""
        return self.questions[phrasing].format(s=subject, start=start, end=end)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((_FOLDER / "phrasings.toml").read_text(encoding="utf-8"))


@cache
def relations() -> Mapping[str, Relation]:
    """All relations by name, in the order of the file."""
    found = {
        row["name"]: Relation(
            name=row["name"],
            subject_kind=EntityKind(row["subject_kind"]),
            value_kind=ValueKind(row["value_kind"]),
            time_bounded=row.get("time_bounded", False),
            statements=(*row["statements"], *row["held_out_statements"]),
            questions=(*row["questions"], *row["held_out_questions"]),
            held_out_statements=len(row["held_out_statements"]),
            held_out_questions=len(row["held_out_questions"]),
        )
        for row in _tables()["relation"]
    }
    return MappingProxyType(found)


@cache
def relations_of(kind: EntityKind) -> tuple[Relation, ...]:
    """The relations whose subject is of `kind`."""
    return tuple(relation for relation in relations().values() if relation.subject_kind is kind)


@cache
def value_list(name: str) -> tuple[str, ...]:
    """A closed list: `materials`, `absurd`, `organisation_nouns` or `work_nouns`."""
    return tuple(_tables()["values"][name])


@cache
def filler_sentences() -> tuple[str, ...]:
    """Sentences without names or numbers that bring a document to its length."""
    return tuple(_tables()["fillers"]["sentences"])


@cache
def lead_ins() -> tuple[str, ...]:
    """Beginnings that training puts before some statements, so that their form varies more."""
    return tuple(_tables()["lead_ins"]["phrases"])


@cache
def prompt_template(name: PromptName) -> str:
    """Load a prompt of the microworld's language model, with `{context}` and `{question}`."""
    return (_FOLDER / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
