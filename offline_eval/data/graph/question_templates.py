"""Read wordings of questions by language and property from TOML files.

Later files win over earlier ones, template by template. `question` of a property also stands for
its `question_year` and `question_number`, where the file gives none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    RootModel,
    StrictBool,
    StringConstraints,
)

from ....guard.errors import InputError
from ....guard.files import AnyPath, file_sha256, read_toml, table_beside
from ....guard.prompts import Prompt
from ....guard.read_models import check_model
from ..rules import Rules
from .graph import Kind

_RULES = Rules(__file__, "question_templates")
_SLOTS: dict[str, frozenset[str]] = {
    name: frozenset(slots.split()) for name, slots in _RULES.table["slots"].items()
}
_OF_PROPERTY = tuple(_RULES.table["words"]["of_property"].split())
_ALWAYS = frozenset({"property", "asks"})
_SPECIAL = ("question_year", "question_number")
SLOT, _BRACE = re.compile(r"\{\w+\}"), re.compile(r"[{}]")
# Stands for all properties.
_ANY, _BY_CLASS = "", "asks_by_class"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TimeChoice = Literal["begin", "value"]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Texts = Annotated[tuple[Word, ...], BeforeValidator(_listed), Field(min_length=1)]


def _check_slots(words: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for name, texts in words.items():
        for text in texts if name in _SLOTS else ():
            needed, slots = _SLOTS[name], Prompt("template", text).slots
            stray = _BRACE.search(SLOT.sub("", text)) or not text.isprintable()
            if stray or not needed <= slots <= needed | _ALWAYS:
                slot = " ".join(f"{{{one}}}" for one in sorted(needed))
                what = f"is one line with {slot} and perhaps {{property}}, {{asks}}"
                raise ValueError(f"{name} {what}")
    return words


# Wordings in one language, of one property or of all, by template.
_Words = RootModel[Annotated[dict[str, Texts], AfterValidator(_check_slots)]]


def _read_words(table: Any, known: Collection[str], where: str) -> Mapping[str, tuple[str, ...]]:
    """Check a table, of which all templates are known.

    Raises:
        InputError: they are not, or one is not what it should be.
    """
    found = check_model(_Words, table, where=where).root
    for stranger in sorted(found.keys() - set(known) - _RULES.words["former"]):
        what = f"there is no template {stranger[:60]!r}"
        raise InputError(what, where=where, hint=", ".join(known))
    return found


class _Property(BaseModel, frozen=True, extra="allow"):
    """An entry `[[property]]`; further fields are tables of wordings by language."""

    iri: str
    # Of an earlier version.
    inverse: StrictBool = True
    time_choice: TimeChoice = "begin"


class Templates:
    """Bundled wordings, overridden by the user's.

    A user's file has a table per language for any property, and `[[property]]` entries:

        [fr]
        question = "Quel est le {property} de {subject} ?"

        [[property]]
        iri = "http://example.org/founder"
        [property.fr]
        label = "fondateur"
        question = "Qui a fondé {subject} ?"

    Args:
        files: the user's, later ones win.

    Raises:
        InputError: a file is missing or broken, or a template has an unknown slot, or lacks
            one without which its question says nothing.
    """

    def __init__(self, files: Iterable[AnyPath] = ()) -> None:
        # By language, IRI of a property or of its values' class, and name.
        self._texts: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._time_choices: dict[str, TimeChoice] = {}
        self.sha256: dict[str, str] = {}
        for name in ("generic.toml", "wikidata.toml", "microworld.toml"):
            self._add(table_beside(__file__, f"templates/{name}"), name)
        for file in files:
            where = os.fspath(file)
            self._add(read_toml(file), where)
            self.sha256[Path(where).name] = file_sha256(file)

    def _add(self, value: Mapping[str, Any], where: str) -> None:
        entries = value.get("property", [])
        if not isinstance(entries, list):
            raise InputError("must be entries [[property]]", where=f"{where}: property")
        for number, entry in enumerate(entries, start=1):
            place = f"{where}: property {number}"
            found = check_model(_Property, entry, where=place, hint='iri = "http://…"')
            if "time_choice" in found.model_fields_set:
                self._time_choices[found.iri] = found.time_choice
            for language, table in (found.model_extra or {}).items():
                words = _read_words(table, _OF_PROPERTY, f"{place}: {language}")
                if "question" in words:
                    for special in _SPECIAL:
                        self._texts.pop((language, found.iri, special), None)
                self._texts |= {(language, found.iri, name): one for name, one in words.items()}
        for language, table in value.items():
            if language == "property":
                continue
            place = f"{where}: {language}"
            shared = dict(table) if isinstance(table, dict) else table
            classes = shared.pop("asks_by_class", {}) if isinstance(shared, dict) else {}
            asks = check_model(_Words, classes, where=f"{place}: asks_by_class").root
            self._texts |= {(language, iri, _BY_CLASS): texts for iri, texts in asks.items()}
            words = _read_words(shared, (*_SLOTS, "asks"), place)
            self._texts |= {(language, _ANY, name): texts for name, texts in words.items()}

    def require(self, language: str) -> None:
        """Reject a language in which not every kind of question can be worded.

        Raises:
            InputError: names what is missing.
        """
        missing = [
            name
            for name in (*_SLOTS, "asks")
            if name not in _SPECIAL and (language, _ANY, name) not in self._texts
        ]
        if missing:
            what = f"no templates in the language {language!r} for: {', '.join(missing)}"
            hint = f"give a file with a table [{language}]"
            raise InputError(what, where="--templates", hint=hint)

    def names(self, prop: str) -> bool:
        """Whether a property has wordings of its own."""
        return any(key[1] == prop and key[2] != _BY_CLASS for key in self._texts)

    def label(self, prop: str, language: str) -> str:
        """What the files call a property; empty when they do not say."""
        return self._texts.get((language, prop, "label"), ("",))[0]

    def asks(self, prop: str, classes: Sequence[str], language: str) -> str:
        """The question word for a property's values, of the classes given."""
        own, shared = (prop, "asks"), (_ANY, "asks")
        keys = (own, *((one, _BY_CLASS) for one in classes), shared)
        found = ((language, *key) for key in keys)
        return next(self._texts[key][0] for key in found if key in self._texts)

    def time_choice(self, prop: str) -> TimeChoice:
        """Return what four-option questions on dated facts ask for."""
        return self._time_choices.get(prop, "begin")

    def pick(
        self, name: str, language: str, prop: str, rng: Random, kind: Kind | None = None
    ) -> Prompt:
        """Draw one of the wordings of a template, for a kind of values where there are any."""
        names = (name,) if kind is None else (f"{name}_{kind.name.lower()}", name)
        keys = ((language, owner, own) for owner in (prop, _ANY) for own in names)
        texts = next(self._texts[key] for key in keys if key in self._texts)
        return Prompt(name, texts[0] if len(texts) == 1 else rng.choice(texts))
