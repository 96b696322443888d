"""Logged replies in the place of a model, found by the question that they answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from ...guard.contracts import Generation
from ...guard.errors import InputError, KnowgateError, LanguageModelError
from ...guard.files import read_jsonl
from ...guard.text import clean_text

# What one line of a log answers: key of the question; reply, where anything but text is an error;
# and what else the question must have, where several share the key. Where none can, two lines that
# answer it in different words are an error.
Entry = tuple[Hashable, Any, Mapping[str, Any]]


class LoggedReplies:
    """A log of a model's replies, JSON lines with a field `response`.

    Args:
        path: of the log.
        entry: reads a line; None for a line that is to be ignored. An InputError that it raises
            gets the file and line.
        hint: what each line needs.

    Attributes:
        path: as given.

    Raises:
        InputError: a line is broken, there is no reply, or a question is answered twice in
            different words.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        entry: Callable[[Mapping[str, Any]], Entry | None],
        *,
        hint: str,
    ) -> None:
        self.path = os.fspath(path)
        self._replies: dict[Hashable, list[tuple[Mapping[str, Any], str]]] = {}
        for number, line in read_jsonl(path):
            try:
                if (found := entry(line)) is not None:
                    self._add(*found)
            except InputError as error:
                where = f"{self.path}:{number}"
                raise InputError(error.what, where=where, hint=hint) from None
        if not self._replies:
            raise InputError("the file holds no replies", where=self.path, hint=hint)

    def _add(self, key: Hashable, response: Any, fields: Mapping[str, Any]) -> None:
        if not isinstance(response, str):
            raise InputError("field 'response' must be text")
        text = clean_text(response)
        known = self._replies.setdefault(key, [])
        if not fields and known and known[0][1] != text:
            raise InputError(f"{_shown(key)!r} was answered before, in other words")
        known.append((fields, text))

    def find(self, key: Hashable, fields: Mapping[str, Any] | None = None) -> str | None:
        """Return the reply to a question; None where none was logged.

        Args:
            key: of the question.
            fields: further fields of the question; a line with another value does not fit.

        Raises:
            InputError: several replies fit.
        """
        fitting = {
            text
            for given, text in self._replies.get(key, ())
            if all(given.get(name) in (None, value) for name, value in (fields or {}).items())
        }
        if len(fitting) > 1:
            raise InputError(
                f"several replies fit question {_shown(key)!r}",
                where=self.path,
                hint=f"give {', '.join(fields or ())} in each line, or the key of the question",
            )
        return next(iter(fitting), None)

    @staticmethod
    def generation(reply: str | None) -> list[Generation] | KnowgateError:
        """A reply in the shape of a model's; an error where none was logged."""
        if reply is None:
            return LanguageModelError("no reply to this question was logged")
        return [Generation(reply)]


def _shown(key: Hashable) -> str:
    parts: Iterable[Any] = key if isinstance(key, tuple) else (key,)
    return " ".join(map(str, parts))[:80]
