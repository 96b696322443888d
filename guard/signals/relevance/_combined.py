"""Several scorers in one: a mix of their values, and a costly one behind a cheap one.

    question, passages ─► cheap value ─┬─ below the band ─► stays as it is, and does not pass
                                       ├─ above the band ─► stays as it is, and passes
                                       └─ in the band, or doubtful ─► costly verdict ─► lowers it

The rules themselves are `MixRule` and `CascadeRule`: calibration fits them, and writes them into
the policy.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from ..._measuring import SetReader, as_score, checks_its_deadline
from ...contracts import RelevanceScorer, SetScore
from ...deadlines import (
    DeadlineRunner,
    asked_to_stop,
    call_on_thread,
    check_deadline,
    seconds_left,
    within,
)
from ...errors import DeadlineExceededError, InputError, SignalValueError, TaskBrokeOffError
from ...fingerprint import CASCADE, MIX, CascadeRule, Fingerprint, MixRule, strict_kind
from ...policy import default_calibrator
from ...read_models import check_model
from ...routing import Calibrator
from ._judge import AwaitedScorer

_logger = logging.getLogger("knowgate.guard")
# Costly calls under way at once, stuck ones included.
_MOST_WORKERS = 32
# Of the time that the whole signal has left: the rest is for what follows.
_SHARE_OF_TIME = 0.9
_MOST_MISSED = 2
_CALIBRATOR: TypeAdapter[Calibrator] = TypeAdapter(Calibrator)
_TextSets = Sequence[Sequence[str]]
MOST_PARTS = 5


class CombinedScorer(AwaitedScorer):
    """A scorer that asks others: the first one's scores, and a value of all.

    Attributes:
        scorers: all that are in it.
    """

    scorers: tuple[RelevanceScorer, ...]

    @property
    def calls(self) -> int | None:
        """How often its scorers asked a language model so far; None where none counts that."""
        known = [one for one in _known("calls", self.scorers) if isinstance(one, int)]
        return sum(known) if known else None

    def tuned_on(self, question: str) -> bool:
        """Whether one of its scorers was tuned on this question, and so looks better on it."""
        return any(tuned_on(question) for tuned_on in _known("tuned_on", self.scorers))

    @property
    def reads_metadata(self) -> bool:
        """Whether one of its scorers reads the metadata of passages."""
        return any(_known("reads_metadata", self.scorers))

    @property
    def _always_asked(self) -> Sequence[RelevanceScorer]:
        return self.scorers

    @property
    def checks_deadline(self) -> bool:
        """Whether all do that are asked about every question."""
        return all(map(checks_its_deadline, self._always_asked))

    def supports(self, question: str) -> bool:
        """Whether all that are asked about every question know its language."""
        return all(supports(question) for supports in _known("supports", self._always_asked))

    def reads_whole(self, passage: str) -> bool:
        """Whether all that are asked about every question read a passage to its end."""
        return all(reads(passage) for reads in _known("reads_whole", self._always_asked))

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The first scorer's scores of shape (len(pairs),); the others are not asked."""
        return self.scorers[0].score_pairs(pairs)

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """As `score_pairs`, without blocking the event loop."""
        return await call_on_thread(lambda: self.score_pairs(pairs))


async def _measured(
    reader: SetReader, questions: Sequence[str], passages: _TextSets, *, awaits: bool
) -> list[SetScore]:
    if awaits:
        return await reader.ameasure(questions, passages)
    return reader.measure(questions, passages)


def _known(name: str, scorers: Iterable[RelevanceScorer]) -> Iterator[Any]:
    """An attribute of those scorers that have it."""
    found = (getattr(scorer, name, None) for scorer in scorers)
    return (one for one in found if one is not None)


def strict_reading(scorer: RelevanceScorer) -> RelevanceScorer:
    """The same scorer, to which doubtful sentences count for nothing.

    Raises:
        InputError: the scorer has no such reading; `SufficiencyScorer` has.
    """
    found: Any = getattr(scorer, "strict", None)
    kind = scorer.fingerprint.kind
    if getattr(getattr(found, "fingerprint", None), "kind", None) != strict_kind(kind):
        raise InputError(
            f"the scorer {kind!r} has no strict reading", hint="take sufficiency, or a tuned one"
        )
    strict: RelevanceScorer = found
    return strict


class MixScorer(CombinedScorer):
    """Log-odds that passages suffice, by a logistic mix of two to five scorers.

    Each counts by its value for all passages (by its best passage, where it judges them one by
    one) and by its margin: how far the best passage stands out from the mean of the others. The
    score of a passage alone is the first scorer's.

    One that fails makes the whole mix fail: nothing is guessed.

    Args:
        parts: two to five different scorers, none of them a mix.
        rule: of the policy; None where it is not known yet: such a mix measures nothing.

    Raises:
        InputError: fewer or more scorers, the same one twice, or a mix.

    Example:
        >>> from knowgate.guard.testing import FakeScorer
        >>> parts = FakeScorer({"nine": 0.9}), FakeScorer({"late": 0.8}, default=0.2)
        >>> rule = MixRule(intercept=0.0, weights=((1.0, 0.0), (2.0, 1.0)))
        >>> mix = MixScorer(parts, rule)
        >>> round(mix.score_set("When?", ["at nine", "late"]).joint, 6)
        3.1
    """

    checks_deadline = CombinedScorer.checks_deadline

    def __init__(self, parts: Sequence[RelevanceScorer], rule: MixRule | None = None) -> None:
        if not 2 <= len(parts) <= MOST_PARTS:
            hint = f"name two to {MOST_PARTS}, e.g. mix:sufficiency+ms-marco"
            raise InputError(f"{len(parts)} scorers are mixed", where=f"{MIX}:", hint=hint)
        if any(isinstance(one, MixScorer) for one in parts):
            raise InputError("is in a mix itself", where=f"{MIX}:", hint="name all scorers in one")
        self.scorers = tuple(parts)
        self._readers, self._rule = [SetReader.usual(one) for one in parts], rule

    def weighted_as(self, wanted: Fingerprint) -> MixScorer:
        """Return the mix with the weights of a policy, where it has none itself."""
        if self._rule is not None or wanted.kind != MIX:
            return self
        return MixScorer(self.scorers, MixRule.of(wanted))

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this mix is bound to: all scorers and all weights."""
        parts = tuple(one.fingerprint for one in self.scorers)
        if self._rule is None:
            return Fingerprint(kind=MIX, parts=parts)
        return self._rule.fingerprint(parts)

    async def _values(
        self, questions: Sequence[str], passages: _TextSets, *, awaits: bool
    ) -> list[SetScore]:
        rule = self._rule
        if rule is None:
            raise InputError(
                "the mix has no weights yet",
                where=f"{MIX}:",
                hint="measure its scorers, then `knowgate calibrate --mix`, and serve that policy",
            )
        ask = partial(_measured, questions=questions, passages=passages, awaits=awaits)
        by_part = [await ask(reader) for reader in self._readers]
        return [
            SetScore(
                first.scores,
                rule.value([(one.joint, MixRule.margin(one.scores)) for one in (first, *others)]),
            )
            for first, *others in zip(*by_part, strict=True)
        ]


class CascadeScorer(CombinedScorer):
    """A cheap scorer that asks a costly one only where the verdict can change the route.

    The costly scorer is asked about a question whose cheap value lies in the band from
    `threshold` up to, but not including, `threshold + reach`. Its verdict v in [0, 1] lowers the
    value by 2 · reach · (1 − v): below one half the question no longer passes. Other values stay
    the cheap scorer's. So one threshold decides, as for any other scorer, and
    `knowgate calibrate --cascade` certifies band and threshold together.

    With `doubts` the band is one of values of the cheap scorer's strict reading: the costly scorer
    is asked where the cheap value passes and the strict one is not above the band. The match is
    good, and the sentences that make it may tell nothing beside the question's own words.

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
        doubts: ask the costly scorer also about what passes by doubtful sentences; the cheap
            scorer is then a `SufficiencyScorer`.

    Raises:
        InputError: a number is out of range, or the cheap scorer has no strict reading.

    Example:
        >>> from knowgate.guard.testing import FakeScorer
        >>> cheap = FakeScorer({"nine": 0.9, "late": 0.6}, default=0.1)
        >>> cascade = CascadeScorer(cheap, FakeScorer(default=0.0), threshold=0.5, reach=0.3)
        >>> [cascade.score_set("When?", [text]).stage for text in ("at nine", "late", "never")]
        ['cheap', 'costly', 'cheap']
        >>> round(cascade.score_set("When?", ["late"]).joint, 6)
        0.0
    """

    checks_deadline = CombinedScorer.checks_deadline

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
        doubts: bool = False,
    ) -> None:
        if seconds is not None and not 0 < seconds < math.inf:
            raise InputError("must be positive seconds or None", where="seconds")
        band = {"threshold": threshold, "reach": reach, "fallback": fallback}
        self._rule = check_model(CascadeRule, band, where="cascade", hint="give finite numbers")
        self.scorers = (cheap, costly, *([strict_reading(cheap)] if doubts else []))
        self._cheap, self._costly, *self._strict = map(SetReader.usual, self.scorers)
        self._calibrator = calibrator or default_calibrator(costly.fingerprint)
        self._seconds = math.inf if seconds is None else seconds
        self._runner = DeadlineRunner(_MOST_WORKERS)

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
        doubts = len(wanted.stages) > 2
        return cls(cheap, costly, calibrator=calibrator, seconds=seconds, doubts=doubts, **settings)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this cascade is bound to: its stages and the band."""
        stages = [one.fingerprint for one in self.scorers]
        own = None if self._calibrator == default_calibrator(stages[1]) else self._calibrator
        return self._rule.fingerprint(*stages, calibrator=own)

    @property
    def _always_asked(self) -> Sequence[RelevanceScorer]:
        return self.scorers[:1]

    async def _values(
        self, questions: Sequence[str], passages: _TextSets, *, awaits: bool
    ) -> list[SetScore]:
        def those(places: Sequence[int]) -> tuple[list[str], list[Sequence[str]]]:
            return [questions[place] for place in places], [passages[place] for place in places]

        cheap = await _measured(self._cheap, questions, passages, awaits=awaits)
        strict: dict[int, float] = {}
        # The strict reading, of what passes or may pass by a verdict.
        passing = [i for i, one in enumerate(cheap) if one.joint >= self._rule.threshold]
        for reader in self._strict if passing else ():
            found = await _measured(reader, *those(passing), awaits=awaits)
            strict = {index: one.joint for index, one in zip(passing, found, strict=True)}
        values = [(one.joint, strict.get(index, math.inf)) for index, one in enumerate(cheap)]
        asked = [index for index, pair in enumerate(values) if self._rule.asks(*pair)]
        verdicts = await self._verdicts(*those(asked), awaits=awaits)
        by_index = dict(zip(asked, verdicts, strict=True))
        return [
            SetScore(
                one.scores,
                self._rule.value(own, by_index.get(index), doubted),
                self._rule.stage(own, by_index.get(index), doubted),
            )
            for index, (one, (own, doubted)) in enumerate(zip(cheap, values, strict=True))
        ]

    async def _verdicts(
        self, questions: list[str], passages: _TextSets, *, awaits: bool
    ) -> list[float | None]:
        """The verdict on each question, or None.

        Together first; where that fails, one by one, so that one question costs only its own
        verdict. One that hangs is waited for twice.
        """
        count = len(questions)
        verdicts: list[float | None] = [None] * count
        if not count:
            return verdicts
        found = await self._judged(questions, passages, awaits=awaits)
        if not isinstance(found, Exception):
            return list(found)
        missed = int(isinstance(found, DeadlineExceededError))
        for index in range(count) if count > 1 else ():
            if missed >= _MOST_MISSED:
                break
            found = await self._judged([questions[index]], [passages[index]], awaits=awaits)
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

    async def _judged(
        self, questions: Sequence[str], passages: _TextSets, *, awaits: bool
    ) -> list[float] | Exception:
        """Verdicts of the costly scorer, or what was raised instead."""
        reader = self._costly
        most = min(self._seconds * len(questions), _SHARE_OF_TIME * seconds_left())
        seconds = None if math.isinf(most) else most
        measure = partial(reader.measure, questions, passages)
        try:
            if not awaits:
                found = self._runner.call(measure, seconds)
            elif reader.awaited:
                found = await within(reader.ameasure(questions, passages), seconds)
            else:
                found = await self._runner.acall(measure, seconds)
            values = [as_score(one.joint) for one in found]
            if not all(map(math.isfinite, values)):
                what = "the costly scorer gave no finite number for each"
                raise SignalValueError("relevance", what)
            return [self._calibrator.apply(value) for value in values]
        except asyncio.CancelledError as error:
            if not awaits or asked_to_stop():
                # The caller cancelled this question, not the scorer itself.
                raise
            return _excused(TaskBrokeOffError(type(error).__name__))
        except Exception as error:  # noqa: BLE001 - whatever it is, the first stage goes on
            return _excused(error)


def _excused(error: Exception) -> Exception:
    # Not where the whole signal is late.
    check_deadline()
    # The message of a foreign error may quote the question: only its type is logged.
    _logger.warning("cascade: the costly scorer failed: %s", type(error).__name__)
    return error
