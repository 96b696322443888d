"""A report before it is rendered: a title, sentences, and sections of blocks.

    Document ─┬─ title, subtitle, headline, warnings
              ├─ sections ── Section ── blocks: str, Prose, Table, Plot,
              │                                 WhatIf or a nested Section
              ├─ values   (report.json)
              ├─ rows     (CSV)
              └─ checks   (JUnit)

All text is plain text. The renderers escape it and put each piece on one line, so a suite
never escapes, and a text from a knowledge base can stand anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from ..._version import CREATED_BY
from ...guard.errors import InputError
from .plots import Plot
from .tables import Table, Text
from .text import UNKNOWN, flat
from .what_if import WhatIf

if TYPE_CHECKING:
    from ..run.manifest import InputFile


@dataclass(frozen=True, slots=True)
class Prose:
    """Paragraphs, or other lines of text.

    Attributes:
        lines: a paragraph each; a pair is a term and what it means.
        kind: `small`: notes in small type; `item`: a list; `fact`: a table of pairs of a name and
            a value; `code`: one with values set as code, as for settings and hashes.
    """

    lines: tuple[Text, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with its own heading.

    Attributes:
        title: its heading; empty for none.
        blocks: in their order; a `str` is a paragraph, None is skipped.
        folded: only its heading is shown until it is opened.

    Raises:
        InputError: the blocks are one text, which would be shown letter by letter.
    """

    title: str
    blocks: tuple[Block | None, ...]
    folded: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.blocks, str):
            hint = "a single block needs a comma: (text,)"
            raise InputError("blocks are a text", where=self.title, hint=hint)

    @classmethod
    def of_run(
        cls, settings: Mapping[str, Any], inputs: Iterable[InputFile], created_by: str
    ) -> Section:
        """Make the last section: settings, hashes of the inputs, and versions.

        Args:
            settings: of the run, as its manifest has them.
            inputs: with their hashes.
            created_by: program that wrote the run.
        """
        pairs = flat("", dict(settings)) if settings else []
        pairs += [(f"sha256 of {file.name}", file.sha256) for file in inputs]
        pairs.append(("run written by", created_by or UNKNOWN))
        pairs.append(("report written by", CREATED_BY))
        return cls("Settings and hashes", (Prose(tuple(pairs), "code"),))

    @classmethod
    def next_steps(cls, steps: Sequence[Text]) -> Section:
        """Make the section that ends a report: what to do, and how, the most urgent first."""
        return cls("What to do next", (Prose(tuple(steps), "item"),))


# What a section holds.
Block = str | Prose | Table | Plot | WhatIf | Section


@dataclass(frozen=True, slots=True)
class Check:
    """A test case of the JUnit file.

    Attributes:
        group: that it belongs to.
        name: unique in the group.
        failure: why it failed; empty where it passed.
        text: what was measured, in one line.
    """

    group: str
    name: str
    failure: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A report that is not yet rendered.

    Attributes:
        SCHEMA_VERSION: of `report.json`.
        name: of the suite.
        title: of the page.
        subtitle: what was run, in one line.
        headline: sentences, the most important one first.
        warnings: what to know before trusting the numbers.
        sections: in their order; None is skipped.
        values: what `report.json` holds.
        rows: gives the lines of the CSV file, the names of its columns first; None where
            the suite has no CSV.
        checks: gives the test cases of the JUnit file where no gate is given; None where the
            suite has none.
    """

    SCHEMA_VERSION: ClassVar = 1

    name: str
    title: str
    subtitle: str
    headline: Sequence[str]
    warnings: Sequence[str]
    sections: Sequence[Section | None]
    values: Mapping[str, Any]
    rows: Callable[[], Iterable[Sequence[object]]] | None = None
    checks: Callable[[], Sequence[Check]] | None = None


def as_json(value: Any) -> Any:
    """Return the numbers of a report as JSON.

    Dataclasses become objects with their fields, unless they say otherwise by `to_dict`; models
    become objects, and tuples lists.
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value
