"""What becomes of a reply after its check: delivered, marked, or replaced by a refusal."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from ._failures import typed_failure
from ._metrics import MetricsOfGuard
from ._observers import Observers
from .deadlines import DeadlineRunner, Turns
from .decision import OnError
from .errors import (
    InputError,
    SignalError,
    SignalValueError,
)
from .routing import at_once
from .signals.support.contracts import ReplyVerdict, SentenceSupport, Support

if TYPE_CHECKING:
    from .artefacts import SupportPolicy
    from .signals.support import SupportCheck

_logger = logging.getLogger("knowgate.guard")
OnUnsupported = Literal["flag", "abstain", "mark", "drop"]
SUPPORT = "support"
# Chosen on no labelled replies: half of what a sentence says must stand in the passages.
DEFAULT_THRESHOLD = 0.5
DEFAULT_DEADLINE = 2.0
_MARK = " [not in the sources]"


@dataclass(frozen=True)
class ReplyChecker:
    """Checks replies under a deadline, and counts what it finds.

    Args:
        check: measures the support.
        policy: threshold and promise; None for the default threshold.
        action: what an unsupported reply leads to.
        on_error: what a check that fails leads to; `follow_context` delivers the reply.
        seconds: of the deadline; None for none.
        acts: False in shadow mode, where replies are only counted.
        metrics: counts; None for none.
        observers: are told of each verdict; None for none.
        threads: of calls under a deadline.
        turns: replies that are checked share the interpreter: each waits for its turn, with which
            its deadline begins.
    """

    check: SupportCheck
    policy: SupportPolicy | None
    action: OnUnsupported
    on_error: OnError
    seconds: float | None
    acts: bool
    metrics: MetricsOfGuard | None
    observers: Observers | None
    threads: DeadlineRunner
    turns: Turns

    @property
    def threshold(self) -> float:
        """From which support on a sentence is supported; above 1 where nothing is delivered."""
        if self.policy is None:
            return DEFAULT_THRESHOLD
        return 2.0 if self.policy.threshold is None else self.policy.threshold

    @property
    def calibrated(self) -> bool:
        """Whether the threshold was chosen on labelled replies, with a promise."""
        return self.policy is not None and self.policy.certified

    @property
    def holds_back(self) -> bool:
        """Whether a reply may be delivered otherwise than as it was generated."""
        return self.acts and self.action != "flag"

    def judge(
        self, reply: str, passages: Sequence[object], question: str, *, part: bool = False
    ) -> ReplyVerdict:
        """Check one reply.

        Args:
            reply: as generated.
            passages: those that the model was given.
            question: what was asked.
            part: whether more of the reply follows, so that `tell` is called after it.

        Raises:
            SignalError: the check failed, and the guard was told to raise then.
        """
        return at_once(self.ajudge(reply, passages, question, part=part, awaits=False))

    async def ajudge(
        self,
        reply: str,
        passages: Sequence[object],
        question: str,
        *,
        part: bool = False,
        awaits: bool = True,
    ) -> ReplyVerdict:
        """As `judge`, without blocking the event loop unless it `awaits` nothing."""
        if isinstance(passages, str | bytes) or not isinstance(passages, Sequence):
            raise InputError("is no list of passages", where="passages", hint="give [text, …]")
        check = partial(self.check.check, reply, passages, question)
        started = time.perf_counter()
        seconds = self.seconds
        by = self.threads
        try:
            await self.turns.atake() if awaits else self.turns.take()
            with self.turns.turn(seconds):
                found = await by.acall(check, seconds) if awaits else by.call(check, seconds)
            verdict = self._verdict(reply, found)
        except Exception as error:  # noqa: BLE001 - a check of one's own may raise anything
            verdict = self._failed(reply, error)
        if not part:
            self.tell(question, verdict, time.perf_counter() - started)
        return verdict

    def tell(self, question: str, verdict: ReplyVerdict, seconds: float) -> None:
        """Count the verdict on a whole reply, and tell the observers."""
        if self.metrics is not None and verdict.support is not None:
            action = self.action if self.acts else "flag"
            value = verdict.support.value
            self.metrics.count_support(value, action if value < self.threshold else None, seconds)
        if self.observers is not None:
            self.observers.tell_reply(question, verdict)

    def _verdict(self, reply: str, support: Support) -> ReplyVerdict:
        unsupported = support.unsupported(self.threshold)
        if not unsupported or not self.holds_back:
            return ReplyVerdict(reply, support, not unsupported, self.calibrated)
        if self.action == "abstain":
            return ReplyVerdict(None, replace(support, sentences=()), False, self.calibrated)
        text, shown = _changed(reply, support, self.threshold, drop=self.action == "drop")
        if self.action == "drop" and all(one.support is None for one in shown.sentences):
            # Greetings alone are no answer.
            text = ""
        return ReplyVerdict(text if text.strip() else None, shown, False, self.calibrated)

    def _failed(self, reply: str, error: Exception) -> ReplyVerdict:
        # The message may quote the reply: only the type is logged.
        _logger.warning("the check of a reply failed: %s", type(error).__name__)
        typed = typed_failure(SUPPORT, error, self.seconds)
        if type(typed) is SignalError:
            # Raised by a check of one's own.
            typed = SignalValueError(SUPPORT, f"the check {typed.detail}")
        if self.metrics is not None:
            self.metrics.count_error(SUPPORT, typed)
        if self.acts and self.on_error is OnError.RAISE:
            raise typed from None
        withheld = self.acts and self.on_error is OnError.ABSTAIN
        return ReplyVerdict(None if withheld else reply, None, None)


def _changed(reply: str, support: Support, threshold: float, *, drop: bool) -> tuple[str, Support]:
    """The reply with each unsupported sentence marked, or without them; and its sentences."""
    parts: list[str] = []
    sentences: list[SentenceSupport] = []
    last = length = 0
    for one in support.sentences:
        unsupported = one.support is not None and one.support < threshold
        told = reply[one.start : one.end]
        before, last = reply[last : one.start], one.end
        if unsupported and drop:
            parts.append(before.rstrip(" "))
            length += len(parts[-1])
            continue
        parts += [before, told]
        start = length + len(before)
        sentences.append(replace(one, start=start, end=start + len(told)))
        length = start + len(told)
        if unsupported:
            parts.append(_MARK)
            length += len(_MARK)
    return "".join([*parts, reply[last:]]), Support(support.value, tuple(sentences))
