"""What sees every decision and has no say in it: observers, the log, a watch on passages."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from uuid import uuid4

from .artefacts import Retrieval
from .errors import InputError
from .files import unwritable, write_text
from .process import after_fork
from .text import Request

if TYPE_CHECKING:
    from ._metrics import MetricsOfGuard
    from .decision import Decision
    from .policy import Policy
    from .signals.support.contracts import ReplyVerdict
    from .text import Request

_logger = logging.getLogger("knowgate.guard")


class GuardObserver(Protocol):
    """An observer that also wants to know which guard decides, and on what."""

    def for_guard(self, policy: Policy, name: str) -> Callable[[Decision, Request | None], object]:
        """Return what is called with each decision of one guard, and its request if readable."""


Observer: TypeAlias = "Callable[[Decision], object] | GuardObserver"


class Observers:
    """Read-only callbacks, called after each decision, in the order given.

    They run on the thread that decided, one after the other, before the caller gets the
    decision; guards that decide on many threads call them on many threads at once. One
    that raises is logged once by the type of its error, never with its text, which may
    be a user's; those after it are called all the same.

    Args:
        observers: callables, or objects with `for_guard`.
        policy: of the guard.
        name: of the guard.
        metrics: count those that raise.

    Raises:
        InputError: one of them cannot be called, or is a coroutine function.
    """

    def __init__(
        self,
        observers: Iterable[Observer],
        policy: Policy,
        name: str,
        metrics: MetricsOfGuard | None = None,
    ) -> None:
        if not isinstance(observers, Iterable) or isinstance(observers, str | bytes):
            raise InputError("observers are not a collection", hint="pass observers=(observer,)")
        self._metrics = metrics
        self._observers: list[tuple[str, Callable[[Decision, Request | None], object]]] = []
        for observer in observers:
            for_guard = None if isinstance(observer, type) else getattr(observer, "for_guard", None)
            if for_guard is not None:
                self._observers.append((type(observer).__qualname__, for_guard(policy, name)))
                continue
            if not callable(observer) or isinstance(observer, type):
                what = "an observer cannot be called with a decision"
                hint = "pass functions or callable objects that take one Decision"
                raise InputError(what, hint=hint)
            if any(map(inspect.iscoroutinefunction, (observer, type(observer).__call__))):
                what = "an observer is a coroutine function, which the sync forms cannot await"
                hint = "pass a plain function that hands the decision to your event loop"
                raise InputError(what, hint=hint)
            called = getattr(observer, "__qualname__", type(observer).__qualname__)
            self._observers.append((called, partial(_told, observer)))
        self._logged: dict[tuple[int, type[BaseException]], object] = {}

    def or_none(self) -> Observers | None:
        """Return them, or None where there are none: a decision then costs no call."""
        return self if self._observers else None

    def tell(self, decision: Decision, request: Request | None = None) -> None:
        """Call every observer; an exception of an observer is logged and counted only.

        Args:
            decision: that was taken.
            request: on which; None where the input could not be read, or a chain decided.
        """
        for position, (_, observer) in enumerate(self._observers):
            self._call(position, observer, decision, request)

    def tell_reply(self, question: str, verdict: ReplyVerdict) -> None:
        """Tell those observers that have a `reply` of a checked reply; errors as in `tell`."""
        for position, (_, observer) in enumerate(self._observers):
            if (told := getattr(observer, "reply", None)) is not None:
                self._call(position, told, question, verdict)

    def _call(self, position: int, observer: Callable[..., object], *told: object) -> None:
        try:
            observer(*told)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - not even SystemExit has a say in it
            if self._metrics is not None:
                self._metrics.count("observer_errors")
            own = object()
            # What comes first of a kind stays, whichever thread it is on.
            if self._logged.setdefault((position, type(error)), own) is own:
                _logger.warning(
                    "observer %s raised %s; it is called with further decisions, and this is "
                    "logged once",
                    self._observers[position][0],
                    type(error).__name__,
                )


def _told(observer: Callable[[Decision], object], decision: Decision, _: Request | None) -> None:
    observer(decision)


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

    def __init__(self, expected: Retrieval, metrics: MetricsOfGuard | None, name: str) -> None:
        self._expected, self._metrics, self._name = expected, metrics, name
        self._warned: set[str] = set()

    def look(self, request: Request) -> None:
        """Compare the passages of one question."""
        expected = self._expected
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
            self._metrics.count("mismatches", what)
        if what not in self._warned:
            self._warned.add(what)
            _logger.warning(
                "guard %s: %s. It is counted from now on, and logged once", self._name, seen
            )


_TOLD = {
    "mode", "route", "reason", "scenario", "relevance", "raw_relevance", "relevance_stage",
    "confidence", "conflict", "kept", "scores", "failed_signals",
}  # fmt: skip
_PATTERN = "decisions-*.jsonl"
_LONGEST_TEXT = 4_000
_ID_BYTES = 12
# As many as the metric `knowgate_policy_info` shows.
_POLICY_DIGITS = 12


class DecisionLog:
    """Writes each decision of a guard to a folder, as one line of JSON, and each checked reply.

    An observer: `Guard.load("policy.json", observers=[DecisionLog("decisions")])`. The lines are
    read by `knowgate shadow-report` and `knowgate drift`. Threads share a file, each process
    writes files of its own, and each line is written by one call. A file that is full is
    followed by another one. The policy that decides is stored beside them, as
    `policy-<id>.json`.

    Neither question nor passages nor answers are written unless `text` asks for it: a line
    holds the id of the question, so that whoever has the question finds its decision.

    A disk that fails never costs a decision: what cannot be written is counted in `lost`, in
    `knowgate_observer_errors_total`, and in the next line that can be written. Lines survive
    the end of the process, not that of the machine: nothing waits for the disk.

    Attributes:
        folder: where the files are.
        written: number of decisions that this process has written.
        lost: number of decisions that this process could not write.
        identify: makes the id of a question as lines have it.

    Args:
        folder: made where missing; on a local disk, because a decision waits for each write.
        text: also write question, passages (the first 4,000 characters of each),
            closed-book answer and views.
        max_bytes: of one file; it ends with the first line beyond.
        max_files: in the folder; the oldest are removed.
        key: secret that the ids of questions are made with. Without one, whoever guesses a
            question can find out whether it was asked.
        identify: makes the id of a question in place of the hash, e.g. from the id of the
            request that is served.

    Raises:
        InputError: the folder cannot be made, or a limit is below 1.

    Example:
        >>> import tempfile
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> scorer = FakeScorer(default=0.9)
        >>> log = DecisionLog(tempfile.mkdtemp())
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> guard = Guard(policy, scorer=scorer, metrics=False, observers=[log])
        >>> guard.decide("When does the library open?", ["At nine."]).route.value
        'follow_context'
        >>> (log.written, log.lost, log.question_id("When does the library open?"))
        (1, 0, '23bea73b2ca697d23f52313a')
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        text: bool = False,
        max_bytes: int = 16 * 2**20,
        max_files: int = 64,
        key: bytes = b"",
        identify: Callable[[Request], str] | None = None,
    ) -> None:
        if max_bytes < 1 or max_files < 1:
            raise InputError("must be at least 1", where="max_bytes, max_files")
        self.folder = Path(folder).absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from None
        self.text, self._max_bytes, self._max_files = text, max_bytes, max_files
        # BLAKE2 takes keys of at most 64 bytes.
        self._key = hashlib.blake2b(key).digest() if key else b""
        self.identify = identify or (lambda request: self.question_id(request.question))
        self._policies: dict[str, str] = {}
        self._file: int | None = None
        self.begin()
        after_fork(self)

    def begin(self) -> None:
        """Begin with a file of this process and counts of zero; called after a fork."""
        self._lock = threading.Lock()
        self._close()
        self._bytes = self.written = self.lost = self._told_lost = 0

    def question_id(self, question: str) -> str:
        """Return the id of a question in the log, e.g. to store a user's feedback under it.

        It is that of the clean text that the guard reads, and not what `identify` makes.
        """
        return _hash(question, self._key)

    @staticmethod
    def plain_question_id(question: str) -> str:
        """Return the id that logs without a key have for a question."""
        return _hash(question, b"")

    def for_guard(self, policy: Policy, name: str) -> Callable[[Decision, Request | None], object]:
        """Return what is called with each decision of one guard, and what it decided on.

        Args:
            policy: of the guard.
            name: of the guard.
        """
        policy_id = policy.sha256[:_POLICY_DIGITS]
        with self._lock:
            self._policies[policy_id] = policy.to_json()
            self._store_policies()
        return _LinesOfGuard(self, {"guard": name, "policy": policy_id})

    def close(self) -> None:
        """Close the file; a further decision opens another one."""
        with self._lock:
            self._close()

    def write(self, made: Callable[[], dict[str, Any]]) -> None:
        """Write one line; what cannot be written is counted, and raised for the guard to log.

        Args:
            made: makes the fields of the line.
        """
        try:
            fields = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **made()}
            with self._lock:
                if self.lost > self._told_lost:
                    fields["lost"] = self.lost - self._told_lost
                lost = self.lost
                self._append(json.dumps(fields, allow_nan=False, separators=(",", ":")) + "\n")
                self.written += 1
                self._told_lost = lost
        except BaseException:
            with self._lock:
                self.lost += 1
            raise

    def _append(self, line: str) -> None:
        """Write a line to the end of the file, or to a new one."""
        raw = line.encode("utf-8", "backslashreplace")
        try:
            # A file that somebody removed takes lines that nobody will read.
            if self._file is not None and not os.fstat(self._file).st_nlink:
                self._close()
            if self._file is None:
                self._open()
            assert self._file is not None
            if os.write(self._file, raw) < len(raw):
                raise OSError("no space for a whole line")
            self._bytes += len(raw)
            if self._bytes >= self._max_bytes:
                self._close()
        except OSError:
            # What was cut off ends its file.
            self._close()
            raise

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        began = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        path = self.folder / f"decisions-{began}-{os.getpid()}-{uuid4().hex[:6]}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file, self._bytes = os.open(path, flags, 0o640), 0
        self._store_policies()
        self._remove_oldest()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def _store_policies(self) -> None:
        """Store the policies that are not there; without one the lines are there all the same."""
        for policy_id, text in self._policies.items():
            path = self.folder / f"policy-{policy_id}.json"
            with contextlib.suppress(OSError, InputError):
                if not path.exists():
                    write_text(path, text)

    def _remove_oldest(self) -> None:
        # By when they were written last: a quiet process may have begun its file long ago.
        with contextlib.suppress(OSError):
            found = sorted(self.folder.glob(_PATTERN), key=lambda path: path.stat().st_mtime_ns)
            for path in found[: -self._max_files]:
                path.unlink(missing_ok=True)


class _LinesOfGuard:
    """Writes the lines of one guard.

    Args:
        log: where to.
        made_by: guard and policy, in each line.
    """

    def __init__(self, log: DecisionLog, made_by: dict[str, str]) -> None:
        self._log, self._made_by = log, made_by

    def __call__(self, decision: Decision, request: Request | None) -> None:
        """Write a decision."""
        text = {"text": _texts(decision, request)} if self._log.text else {}
        self._log.write(
            lambda: {
                "question_id": request and self._log.identify(request),
                **self._made_by,
                **_fields(decision),
                "passages": None if request is None else request.given,
                **text,
            }
        )

    def reply(self, question: str, verdict: ReplyVerdict) -> None:
        """Write what the check of a reply found: numbers, and with `text` its sentences."""
        support, told = verdict.support, verdict.text if self._log.text else None
        self._log.write(
            lambda: {
                "kind": "reply",
                "question_id": self._log.question_id(question),
                **self._made_by,
                "supported": verdict.supported,
                "withheld": verdict.withheld,
                **(support.to_dict(told) if support else {"support": None, "sentences": []}),
            }
        )


def _hash(question: str, key: bytes) -> str:
    text = question.encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=_ID_BYTES, key=key).hexdigest()


def _fields(decision: Decision) -> dict[str, Any]:
    """Return what a line says of a decision, without text of users."""
    told = decision.model_dump(mode="json", include=_TOLD)
    found = decision.answerability
    premise = None if found is None else found.premise.value
    seconds = decision.timings.get("total")
    return {**told, "vetoes": decision.vetoes, "premise": premise, "seconds": seconds}


def _texts(decision: Decision, request: Request | None) -> dict[str, Any]:
    """Return the text of users and models, each piece cut at the most that a line holds."""
    return {
        "question": None if request is None else request.question[:_LONGEST_TEXT],
        "passages": [] if request is None else [one[:_LONGEST_TEXT] for one in request.passages],
        "closed_book_answer": (decision.closed_book_answer or "")[:_LONGEST_TEXT] or None,
        "views": [view.answer[:_LONGEST_TEXT] for view in decision.views],
    }
