"""Fields of the JSON objects that question files hold, checked as they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...guard.errors import InputError
from ...guard.files import read_jsonl
from ...guard.text import clean_text
from ._question_file import CsvFile


def _cleaned(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _named(value: Any) -> Any:
    """Ids as text: some tools number their questions."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return clean_text(str(value)).strip() if whole or isinstance(value, str) else value


# Fields of pydantic models that read files of others.
Text = Annotated[str, BeforeValidator(_cleaned)]
NamedText = Annotated[str, BeforeValidator(_named)]
Filled = Annotated[str, BeforeValidator(_named), Field(min_length=1)]
Identifier = Filled


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one object of a file.

    Attributes:
        value: the object.
        where: its place, for errors.
        hint: what an object should look like.
    """

    value: Mapping[str, Any]
    where: str
    hint: str = ""

    @classmethod
    def of_table(
        cls, path: str | os.PathLike[str], *, needed: str, others: str
    ) -> Iterator[Fields]:
        """Read the rows of a CSV file, or of JSON lines.

        Args:
            path: CSV if it is named so.
            needed: a column without which a CSV file is another one.
            others: further columns, for the hint of that error.

        Raises:
            InputError: the file cannot be read, or a line of it is broken.
        """
        if CsvFile.is_named_so(path):
            rows: Iterable[tuple[int, Mapping[str, Any]]] = CsvFile.read(
                path, needed=needed, others=others
            ).rows
        else:
            rows = read_jsonl(path)
        for number, value in rows:
            yield cls(value, f"{os.fspath(path)}:{number}")

    def text(self, name: str) -> str:
        """Return a field that must be text with something in it, cleaned.

        Raises:
            InputError: it is missing, no text, or empty.
        """
        found = self.value.get(name)
        if found is None:
            raise InputError(f"field '{name}' is missing", where=self.where, hint=self.hint)
        if not isinstance(found, str):
            raise self._error(name, "must be text", found)
        return self._filled(name, found)

    def optional_text(self, name: str) -> str | None:
        """Return the same, or None where there is no such field."""
        return None if self.value.get(name) is None else self.text(name)

    def identifier(self, *names: str) -> str | None:
        """Return the first of several fields that is there, as text; None without one.

        Raises:
            InputError: it is neither text nor a whole number, or empty.
        """
        for name in names:
            found = self.value.get(name)
            if found is None:
                continue
            if isinstance(found, bool) or not isinstance(found, str | int):
                raise self._error(name, "must be text or a whole number", found)
            return self._filled(name, str(found))
        return None

    def _filled(self, name: str, found: str) -> str:
        # Cleaned first: of nothing but NUL, nothing is left.
        text = clean_text(found)
        if not text.strip():
            raise InputError(f"field '{name}' is empty", where=self.where, hint=self.hint)
        return text

    def _error(self, name: str, what: str, found: object) -> InputError:
        message = f"field '{name}' {what}, found {type(found).__name__}"
        return InputError(message, where=self.where, hint=self.hint)
