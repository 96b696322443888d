"""Compare what is retrieved in service with what a policy was calibrated on, and count it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from ._artefacts import Retrieval
from ._signal import Request

if TYPE_CHECKING:
    from ._metrics import MetricsOfGuard

_logger = logging.getLogger("knowgate.guard")
# Chunks of one size differ by less; whole documents in place of answers by more.
_MUCH_LONGER = 2
_NOT_COVERED = "the policy's promise does not cover that: calibrate as it is served"


class RetrievalWatch:
    """Notices questions whose passages are not like those of the calibration, or not read whole.

    It warns once per kind, counts each question, and changes no decision. Fewer
    passages than in calibration are ordinary: not every question has so many.

    Args:
        expected: what the policy was calibrated on; None where that is not known.
        metrics: of the guard, None for none.
        name: of the guard.
    """

    def __init__(
        self, expected: Retrieval | None, metrics: MetricsOfGuard | None, name: str
    ) -> None:
        self._expected, self._metrics, self._name = expected, metrics, name
        self._warned: set[str] = set()

    def look(self, request: Request) -> None:
        """Compare the passages of one question."""
        expected = self._expected
        if expected is None:
            return
        if expected.k is not None and request.given > expected.k:
            seen = f"{request.given} passages to a question, {expected.k} in calibration"
            self._note("k", f"{seen}; {_NOT_COVERED}")
        if expected.longest is not None:
            longest = max(map(len, request.passages), default=0)
            if longest > _MUCH_LONGER * expected.longest:
                self._note(
                    "format",
                    f"a passage of {longest} characters, at most {expected.longest} in calibration"
                    f" (passages held: {expected.passage or 'not known'}); {_NOT_COVERED}",
                )

    def note_unread(self, passage: str) -> None:
        """Note a passage whose end the scorer does not read."""
        self._note(
            "unread",
            f"the end of a passage of {len(passage)} characters is not read, as it is longer than "
            "the scorer reads: cut documents into shorter chunks",
        )

    def _note(self, what: Literal["k", "format", "unread"], seen: str) -> None:
        if self._metrics is not None:
            self._metrics.count_mismatch(what)
        if what not in self._warned:
            self._warned.add(what)
            _logger.warning(
                "guard %s: %s. It is counted from now on, and logged once",
                self._name,
                seen,
            )
