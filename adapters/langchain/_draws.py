"""The draws of one request: what arrived, what failed, and what is still worth asking."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from ...guard import Generation, LanguageModelError, PartialGenerationsError
from ...guard._transient import is_transient

# So many calls in a row, each after all its attempts, and the provider is down.
_OUTAGE = 3


class EndedFlag(Protocol):
    """A `threading.Event` or an `asyncio.Event`."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...


class Draws:
    """Bookkeeping for `n` draws to each of several prompts; for many threads.

    A failed draw ends its prompt: no further draw or attempt is begun for it, while
    calls under way may still arrive. Other prompts go on, unless the provider is down.

    Args:
        prompts: number of prompts.
        n: draws for each.
        ended: one flag per prompt, set once nothing more is to be begun for it.
    """

    def __init__(self, prompts: int, n: int, ended: Sequence[EndedFlag]) -> None:
        self._lock = threading.Lock()
        self._arrived: list[list[Generation | None]] = [[None] * n for _ in range(prompts)]
        self._errors: list[LanguageModelError | None] = [None] * prompts
        self._in_a_row = 0
        self._ended = ended

    def arrive(self, prompt: int, draw: int, generation: Generation) -> None:
        """Note an answer."""
        with self._lock:
            self._arrived[prompt][draw] = generation
            self._in_a_row = 0

    def fail(self, prompt: int, error: LanguageModelError) -> None:
        """Note that a draw failed for good; the prompt's first error is kept."""
        with self._lock:
            ended = [prompt]
            if not self._ended[prompt].is_set():
                outage = error.__cause__ is not None and is_transient(error.__cause__)
                self._in_a_row = self._in_a_row + 1 if outage else 0
                if self._in_a_row >= _OUTAGE:
                    ended = list(range(len(self._ended)))
            for index in ended:
                if self._errors[index] is None and not self._complete(index):
                    self._errors[index] = error
                self._ended[index].set()

    def end(self) -> None:
        """Begin nothing more, whatever is still missing."""
        with self._lock:
            for flag in self._ended:
                flag.set()

    def rows(self) -> list[list[Generation]]:
        """The generations by prompt, once all calls have ended.

        Raises:
            PartialGenerationsError: some are missing; has what arrived.
            LanguageModelError: nothing arrived for the only prompt; typed by why.
        """
        with self._lock:
            rows = [[found for found in row if found is not None] for row in self._arrived]
            errors = [
                None if self._complete(index) else error for index, error in enumerate(self._errors)
            ]
        first = next((error for error in errors if error is not None), None)
        if first is None:
            return rows
        if len(rows) == 1 and not rows[0]:
            raise first
        raise PartialGenerationsError(str(first), rows, errors) from first

    def _complete(self, prompt: int) -> bool:
        return None not in self._arrived[prompt]
