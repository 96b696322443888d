"""Two scorers in one: a cheap one, and a costly one that is asked only where it matters.

    question, passages ─► cheap value ─┬─ below the band ─► stays as it is, and does not pass
                                       ├─ above the band ─► stays as it is, and passes
                                       └─ in the band ─► costly verdict ─► lowers the value

The rule itself is `CascadeRule`; calibration fits it, and the guard needs one threshold.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Generator, Sequence
from typing import Any

from pydantic import TypeAdapter

from ...contracts import RelevanceScorer, SetScore
from ...deadlines import (
    DeadlineRunner,
    asked_to_stop,
    check_deadline,
    seconds_left,
    within,
)
from ...errors import DeadlineExceededError, InputError, SignalValueError, TaskBrokeOffError
from ...fingerprint import CASCADE, CascadeRule, Fingerprint
from ...policy import default_calibrator
from ...routing import Calibrator
from ._mix import MixScorer
from ._stage import MadeOfScorers, Stage, numbers

_logger = logging.getLogger("knowgate.guard")
# Costly calls under way at once, stuck ones included.
_MOST_WORKERS = 32
# Of the time that the whole signal has left: the rest is for what follows.
_SHARE_OF_TIME = 0.9
_MOST_MISSED = 2
_CALIBRATOR: TypeAdapter[Calibrator] = TypeAdapter(Calibrator)
# Questions, and the passages of each.
_Given = tuple[list[str], list[Sequence[str]]]


class CascadeScorer(MadeOfScorers):
    """A cheap scorer that asks a costly one only where the verdict can change the route.

    The costly scorer is asked about a question whose cheap value lies in the band from
    `threshold` up to, but not including, `threshold + reach`. Its verdict v in [0, 1] lowers the
    value by 2 · reach · (1 − v): below one half the question no longer passes. Other values stay
    the cheap scorer's. So one threshold decides, as for any other scorer, and
    `knowgate calibrate --cascade` certifies band and threshold together.

    A costly scorer that raises, misses its deadline or gives no number never fails the question:
    it passes from the cheap value `fallback` on, or does not pass. `SetScore.stage`,
    `Decision.relevance_stage` and the metric `knowgate_relevance_stages_total` say so.

    Args:
        cheap: asked about every question.
        costly: asked about those in the band, e.g. a `SufficiencyJudge`.
        threshold: lower edge of the band, on the cheap scorer's own scale.
        reach: width of the band, at least 0.
        fallback: where the costly scorer failed, the cheap value from which on a question passes;
            None: it does not pass.
        calibrator: makes a verdict in [0, 1] of the costly scorer's value; by default the one
            bundled with that scorer, or the value itself, clipped.
        seconds: that the costly scorer has for one question, within the deadline of relevance;
            None: as long as that.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> from knowgate.guard.testing import FakeScorer
        >>> cheap = FakeScorer({"nine": 0.9, "late": 0.6}, default=0.1)
        >>> cascade = CascadeScorer(cheap, FakeScorer(default=0.0), threshold=0.5, reach=0.3)
        >>> [cascade.score_set("When?", [text]).stage for text in ("at nine", "late", "never")]
        ['cheap', 'costly', 'cheap']
        >>> round(cascade.score_set("When?", ["late"]).joint, 6)
        0.0
    """

    def __init__(
        self,
        cheap: RelevanceScorer,
        costly: RelevanceScorer,
        *,
        threshold: float,
        reach: float,
        fallback: float | None = None,
        calibrator: Calibrator | None = None,
        seconds: float | None = 8.0,
    ) -> None:
        for name, value in (("threshold", threshold), ("reach", reach), ("fallback", fallback)):
            if value is not None and not math.isfinite(value):
                raise InputError("must be a finite number", where=name)
        if reach < 0:
            raise InputError("must be at least 0", where="reach")
        if seconds is not None and not 0 < seconds < math.inf:
            raise InputError("must be positive seconds or None", where="seconds")
        self._rule = CascadeRule(threshold=threshold, reach=reach, fallback=fallback)
        self._cheap, self._costly = Stage.of(cheap), Stage.of(costly)
        self._calibrator = calibrator or default_calibrator(costly.fingerprint)
        self._seconds = math.inf if seconds is None else seconds
        self._runner = DeadlineRunner(_MOST_WORKERS)

    @staticmethod
    def completing(wanted: Fingerprint, given: RelevanceScorer) -> RelevanceScorer:
        """Return the scorer that a policy wants, where only the costly one of a cascade is given.

        The cheap scorer is then loaded by its name, and the band is the policy's; so are the
        weights of a mix that has none.

        Args:
            wanted: of the policy.
            given: returned as it is, unless `wanted` is a cascade and it is not.

        Raises:
            InputError: the cheap scorer cannot be loaded by its name.
        """
        if wanted.parts and isinstance(given, MixScorer):
            return given.weighted_as(wanted)
        if not wanted.stages or given.fingerprint.kind == CASCADE:
            return given
        from .registry import load_scorer

        return CascadeScorer.of(wanted, load_scorer(wanted.stages[0]), given)

    @classmethod
    def of(
        cls,
        wanted: Fingerprint,
        cheap: RelevanceScorer,
        costly: RelevanceScorer,
        *,
        seconds: float | None = 8.0,
    ) -> CascadeScorer:
        """Make the cascade of a policy.

        Args:
            wanted: `policy.scorer`.
            cheap: its cheap scorer.
            costly: its costly scorer.
            seconds: as for the class.

        Raises:
            InputError: the policy is of no cascade.
        """
        if wanted.kind != CASCADE:
            raise InputError(f"the policy is of a scorer {wanted.kind!r}, of no cascade")
        settings: dict[str, Any] = dict(wanted.settings)
        own = settings.pop("calibrator", None)
        calibrator = None if own is None else _CALIBRATOR.validate_json(own)
        return cls(cheap, costly, calibrator=calibrator, seconds=seconds, **settings)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this cascade is bound to: both stages and the band."""
        costly = self._costly.scorer.fingerprint
        own = self._calibrator
        return self._rule.fingerprint(
            self._cheap.scorer.fingerprint,
            costly,
            None if own == default_calibrator(costly) else own,
        )

    @property
    def stages(self) -> tuple[RelevanceScorer, RelevanceScorer]:
        """The cheap and the costly scorer."""
        return self._cheap.scorer, self._costly.scorer

    @property
    def scorers(self) -> tuple[RelevanceScorer, ...]:
        """The cheap and the costly scorer."""
        return self.stages

    @property
    def checks_deadline(self) -> bool:
        """Whether the cheap scorer does; the costly one has a thread of its own."""
        cheap = self._cheap.scorer
        return "checks_deadline" in vars(type(cheap)) and bool(
            getattr(cheap, "checks_deadline", False)
        )

    def supports(self, question: str) -> bool:
        """Whether the cheap scorer knows the question's language."""
        supports = getattr(self._cheap.scorer, "supports", None)
        known: bool = True if supports is None else supports(question)
        return known

    def reads_whole(self, passage: str) -> bool:
        """Whether the cheap scorer reads a passage to its end."""
        reads = getattr(self._cheap.scorer, "reads_whole", None)
        whole: bool = True if reads is None else reads(passage)
        return whole

    # -- passages together ------------------------------------------------------------

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its passages, equal to it."""
        plan = self._plan(self._cheap.measure(questions, passages), questions, passages)
        try:
            given = next(plan)
            while True:
                given = plan.send(self._judged(given))
        except StopIteration as stop:
            found: list[SetScore] = stop.value
            return found

    async def ascore_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `score_sets`, without blocking the event loop."""
        plan = self._plan(await self._cheap.ameasure(questions, passages), questions, passages)
        try:
            given = next(plan)
            while True:
                given = plan.send(await self._ajudged(given))
        except StopIteration as stop:
            found: list[SetScore] = stop.value
            return found

    def _plan(
        self,
        cheap: Sequence[SetScore],
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> Generator[_Given, list[float] | Exception, list[SetScore]]:
        """Yield questions with their passages for the costly scorer; return both stages' values."""
        asked = [index for index, one in enumerate(cheap) if self._rule.asks(one.joint)]
        verdicts = yield from self._verdicts(
            [questions[index] for index in asked], [passages[index] for index in asked]
        )
        by_index = dict(zip(asked, verdicts, strict=True))
        return [
            SetScore(
                one.scores,
                self._rule.value(one.joint, by_index.get(index)),
                self._rule.stage(one.joint, by_index.get(index)),
            )
            for index, one in enumerate(cheap)
        ]

    # -- verdicts ---------------------------------------------------------------------

    def _verdicts(
        self, questions: list[str], passages: list[Sequence[str]]
    ) -> Generator[_Given, list[float] | Exception, list[float | None]]:
        """Yield what to ask about together; is sent verdicts, or what was raised.

        Together first; where that fails, one by one, so that one question costs only its own
        verdict. One that hangs is waited for twice.
        """
        count = len(questions)
        verdicts: list[float | None] = [None] * count
        if not count:
            return verdicts
        found = yield questions, passages
        if not isinstance(found, Exception):
            return list(found)
        missed = int(isinstance(found, DeadlineExceededError))
        for index in range(count) if count > 1 else ():
            if missed >= _MOST_MISSED:
                break
            found = yield [questions[index]], [passages[index]]
            if isinstance(found, Exception):
                missed += isinstance(found, DeadlineExceededError)
            else:
                verdicts[index] = found[0]
        _logger.warning(
            "cascade: %d of %d questions have no verdict of the costly scorer",
            verdicts.count(None),
            count,
        )
        return verdicts

    def _judged(self, given: _Given) -> list[float] | Exception:
        """The verdicts on questions with their passages, or what was raised instead."""
        seconds, most = self._time(len(given[0]))
        try:
            found = self._runner.call(lambda: self._costly.measure(*given), seconds, most=most)
            return self._levels(found, len(given[0]))
        except Exception as error:  # noqa: BLE001 - whatever it is, the first stage goes on
            check_deadline()  # not where the whole signal is late
            return _logged(error)

    async def _ajudged(self, given: _Given) -> list[float] | Exception:
        seconds, most = self._time(len(given[0]))
        try:
            if self._costly.awaited:
                found = await within(self._costly.ameasure(*given), seconds, most=most)
            else:
                found = await self._runner.acall(
                    lambda: self._costly.measure(*given), seconds, most=most
                )
            return self._levels(found, len(given[0]))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError):
                if asked_to_stop():
                    raise  # the caller cancelled this question, not the scorer itself
                error = TaskBrokeOffError(type(error).__name__)
            check_deadline()
            return _logged(error)

    def _time(self, questions: int) -> tuple[float | None, float | None]:
        """Seconds from one check of the deadline to the next, and altogether."""
        left = _SHARE_OF_TIME * seconds_left()
        seconds, most = min(self._seconds, left), min(self._seconds * questions, left)
        return (None, None) if math.isinf(seconds) else (seconds, most)

    def _levels(self, found: Sequence[SetScore], count: int) -> list[float]:
        values = numbers(one.joint for one in found)
        if len(values) != count or not all(map(math.isfinite, values)):
            raise SignalValueError("relevance", "the costly scorer gave no finite number for each")
        return [self._calibrator.apply(value) for value in values]


def _logged(error: Exception) -> Exception:
    # The message of a foreign error may quote the question: only its type is logged.
    _logger.warning("cascade: the costly scorer failed: %s", type(error).__name__)
    return error
