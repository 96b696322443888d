"""Read wordings of questions by language and property from TOML files.

Later files win over earlier ones, template by template. `question` of a property also stands for
its `question_year` and `question_number`, where the file gives none.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, Literal

from ....guard.errors import InputError
from ....guard.files import file_sha256, read_text
from ....guard.prompts import Prompt
from ._graph import Kind

TimeChoice = Literal["begin", "value"]

_SLOTS: Mapping[str, frozenset[str]] = {
    name: frozenset(slots.split())
    for name, slots in {
        "question": "subject",
        "question_year": "subject",
        "question_number": "subject",
        "question_inverse": "value",
        "role": "subject",
        "role_inverse": "value",
        "inter": "role_1 role_2",
        "inter_inverse": "role_1 role_2",
        "time_between": "subject start end",
        "time_year": "subject year",
        "begin": "subject",
        "finish": "subject",
        "dilemma": "question option_1 option_2",
    }.items()
}
_ALWAYS = frozenset({"property", "asks"})
_FRAMES = frozenset({"inter", "inter_inverse", "dilemma"})
_OWN = frozenset({"label", "asks"})
_SLOT, _BRACE = re.compile(r"\{\w+\}"), re.compile(r"[{}]")
_ANY = ""
"""Stands for all properties."""


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

    def __init__(self, files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._texts: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._asks_by_class: dict[tuple[str, str], str] = {}
        self._time_choice: dict[str, TimeChoice] = {}
        self._one_way: set[str] = set()
        self.sha256: dict[str, str] = {}
        folder = resources.files(f"{__package__}.templates")
        for name in ("generic.toml", "wikidata.toml", "microworld.toml"):
            self._add(tomllib.loads(folder.joinpath(name).read_text("utf-8")), name)
        for file in files:
            where = os.fspath(file)
            try:
                self._add(tomllib.loads(read_text(file)), where)
            except tomllib.TOMLDecodeError as error:
                raise InputError(f"not valid TOML ({error})", where=where) from None
            self.sha256[Path(where).name] = file_sha256(file)

    def require(self, language: str) -> None:
        """Reject a language in which not every kind of question can be worded.

        Raises:
            InputError: names what is missing.
        """
        optional = {"question_year", "question_number"}
        missing = [
            name
            for name in (*_SLOTS, "asks")
            if name not in optional and (language, _ANY, name) not in self._texts
        ]
        if missing:
            raise InputError(
                f"no templates in the language {language!r} for: {', '.join(missing)}",
                where="--templates",
                hint=f"give a file with a table [{language}]",
            )

    def names(self, prop: str) -> bool:
        """Whether a property has wordings of its own."""
        return any(key[1] == prop for key in self._texts)

    def label(self, prop: str, language: str) -> str | None:
        """What the files call a property; None when they do not say."""
        found = self._texts.get((language, prop, "label"))
        return found[0] if found else None

    def asks(self, prop: str, classes: Sequence[str], language: str) -> str:
        """The question word for a property's values, of the classes given."""
        own = self._texts.get((language, prop, "asks"))
        if own:
            return own[0]
        for name in classes:
            if (language, name) in self._asks_by_class:
                return self._asks_by_class[language, name]
        return self._texts[language, _ANY, "asks"][0]

    def time_choice(self, prop: str) -> TimeChoice:
        """What four-option questions on dated facts ask for."""
        return self._time_choice.get(prop, "begin")

    def asks_inversely(self, prop: str) -> bool:
        """Whether the subjects of a value may be asked for, as well as the values of a subject."""
        return prop not in self._one_way

    def pick(self, name: str, language: str, prop: str, rng: Random) -> Prompt:
        """One of the wordings of a template."""
        texts = self._texts.get((language, prop, name)) or self._texts[language, _ANY, name]
        return Prompt(name, texts[0] if len(texts) == 1 else rng.choice(texts))

    def pick_question(self, language: str, prop: str, kind: Kind, rng: Random) -> Prompt:
        """One of the wordings of the plain question for a property's values."""
        special = {Kind.YEAR: "question_year", Kind.NUMBER: "question_number"}.get(kind)
        for owner in (prop, _ANY):
            for name in (special, "question"):
                if name is not None and (language, owner, name) in self._texts:
                    return Prompt(name, self._one(language, owner, name, rng))
        raise KeyError(language)  # `require` was not called

    def _one(self, language: str, prop: str, name: str, rng: Random) -> str:
        texts = self._texts[language, prop, name]
        return texts[0] if len(texts) == 1 else rng.choice(texts)

    # --- reading ------------------------------------------------------------------------------

    def _add(self, value: Mapping[str, Any], where: str) -> None:
        properties = value.get("property", [])
        if not isinstance(properties, list):
            raise InputError("must be entries [[property]]", where=f"{where}: property")
        for number, entry in enumerate(properties, start=1):
            place = f"{where}: property {number}"
            if not isinstance(entry, dict) or not isinstance(entry.get("iri"), str):
                raise InputError("lacks its iri", where=place, hint='iri = "http://…"')
            iri = entry["iri"]
            for key, table in entry.items():
                if key == "iri":
                    continue
                if key == "inverse":
                    if not isinstance(table, bool):
                        raise InputError("must be true or false", where=f"{place}: inverse")
                    (self._one_way.discard if table else self._one_way.add)(iri)
                    continue
                if key == "time_choice":
                    if table not in ("begin", "value"):
                        raise InputError("must be begin or value", where=f"{place}: time_choice")
                    self._time_choice[iri] = table
                    continue
                self._add_table(table, key, iri, f"{place}: {key}")
        for language, table in value.items():
            if language != "property":
                self._add_table(table, language, _ANY, f"{where}: {language}")

    def _add_table(self, table: Any, language: str, prop: str, where: str) -> None:
        if not isinstance(table, dict):
            raise InputError("must be a table of templates", where=where, hint=f"[{language}]")
        for name, value in table.items():
            place = f"{where}: {name}"
            if name == "asks_by_class" and prop == _ANY and isinstance(value, dict):
                for iri, word in value.items():
                    self._asks_by_class[language, iri] = _texts(word, place)[0]
                continue
            known = (_SLOTS.keys() | _OWN) - (_FRAMES if prop != _ANY else {"label"})
            if name not in known:
                raise InputError(
                    "there is no such template", where=place, hint=f"one of: {sorted(known)}"
                )
            texts = _texts(value, place)
            if name in _SLOTS:
                for text in texts:
                    _check(text, name, place)
            self._texts[language, prop, name] = texts
            if prop != _ANY and name == "question":
                for special in ("question_year", "question_number"):
                    self._texts.pop((language, prop, special), None)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if (
        not isinstance(texts, list | tuple)
        or not texts
        or not all(isinstance(text, str) and text.strip() for text in texts)
    ):
        raise InputError("must be a text, or a list of texts", where=where)
    return tuple(text.strip() for text in texts)


def _check(text: str, name: str, where: str) -> None:
    slots = Prompt(name, text).slots
    strangers = sorted(slots - _SLOTS[name] - _ALWAYS)
    if strangers:
        raise InputError(
            f"there is no slot {{{strangers[0]}}} here",
            where=where,
            hint=f"slots: {', '.join(sorted(_SLOTS[name] | _ALWAYS))}",
        )
    missing = sorted(_SLOTS[name] - slots)
    if missing:
        raise InputError(f"lacks the slot {{{missing[0]}}}", where=where)
    if _BRACE.search(_SLOT.sub("", text)) or not text.isprintable():
        raise InputError(
            "has a brace that is part of no slot, or more than one line",
            where=where,
            hint="slots are written {subject}",
        )
