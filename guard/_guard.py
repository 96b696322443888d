"""The guard: measures, routes, counts; never holds a request's state."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING

from ._flow import Batch, FlowSettings, Need, Outcome, decision_flow
from ._measure import Instruments
from ._signal_runner import Asking
from .arguments import choice, decided_by, error_actions, merged_deadlines, require_parts
from .contracts import AnswerabilityDetector, ConfidenceEstimator, ConflictDetector, RelevanceScorer
from .decision import Decision, Mode, OnError, SignalName
from .errors import InputError
from .metrics import GuardMetrics, Observer, Observers
from .policy import JOINT, Policy, aggregator

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Guard:
    """Decides for each question whether to follow the context, answer or abstain.

    One guard serves many threads and event loops at once.

    Args:
        policy: thresholds and calibrators.
        scorer: measures relevance; its fingerprint must be the policy's.
        estimator: measures confidence; needed where the policy asks for it. One that
            samples until its own threshold is decided is made to stop at the policy's,
            unless the policy was calibrated on it as it is.
        conflict_detector: needed where the policy checks conflicts.
        answerability: looks at the premise of every question that has passages first, unless
            the policy abstains from everything: one that nothing in the passages can satisfy is
            abstained from, reason `false_premise`.
        mode: `enforce`, or `shadow` to decide and count without acting.
        on_error: what a failed signal leads to (`abstain`, `follow_context`,
            `raise`), for all signals or by signal name; `follow_context` after a failed
            look at the premise goes on with the other signals. Input that cannot be read
            counts under the name `input`; it can be raised or abstained from. A
            question in a language that the scorer does not know counts under the name
            `language`; its relevance is then not measured.
        deadlines: seconds per signal, overriding `DEFAULT_DEADLINES`; None waits
            for ever and runs a sync call on the caller's own thread.
        max_concurrency: language-model questions under way at once in a batch.
        metrics: False for none.
        registry: where metrics are registered; prometheus-client's own by default.
        observers: each is called with every decision after it is counted, in this order
            and on the thread that decided (many at once, where many decide). They must
            be quick and leave the decision as it is. One that raises is logged once by
            type and changes nothing.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        PolicyError: the policy asks for a signal that nothing was given to measure.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        scorer: RelevanceScorer | None = None,
        estimator: ConfidenceEstimator | None = None,
        conflict_detector: ConflictDetector | None = None,
        answerability: AnswerabilityDetector | None = None,
        mode: Mode | str = Mode.ENFORCE,
        on_error: OnError | str | Mapping[str, OnError | str] = OnError.ABSTAIN,
        deadlines: Mapping[str, float | None] = MappingProxyType({}),
        max_concurrency: int = 8,
        metrics: bool = True,
        registry: CollectorRegistry | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        require_parts(policy, scorer, estimator, conflict_detector)
        actions = error_actions(on_error)
        self._policy = policy
        self._settings = FlowSettings(
            policy=policy,
            aggregate=aggregator(policy.aggregator),
            on_error={name: actions[name.value] for name in SignalName},
            on_invalid_input=actions["input"],
            on_unsupported_language=actions["language"],
            mode=choice(Mode, mode, "mode"),
            asks_answerability=answerability is not None,
        )
        instruments = Instruments(
            scorer,
            decided_by(policy, estimator),
            conflict_detector,
            policy.aggregator == JOINT,
            answerability,
        )
        waits = merged_deadlines(deadlines)
        if not isinstance(max_concurrency, int) or max_concurrency < 1:
            raise InputError("max_concurrency must be a whole number, at least 1")
        self._max_concurrency = max_concurrency
        self._observers = Observers(observers)
        self._metrics = GuardMetrics.on(registry) if metrics else None
        self._asking = Asking(instruments, waits, max_concurrency, self._metrics)

    @classmethod
    def load(
        cls,
        policy: str | os.PathLike[str] | Policy,
        *,
        scorer: RelevanceScorer | None = None,
        estimator: ConfidenceEstimator | None = None,
        conflict_detector: ConflictDetector | None = None,
        answerability: AnswerabilityDetector | None = None,
        mode: Mode | str = Mode.ENFORCE,
        on_error: OnError | str | Mapping[str, OnError | str] = OnError.ABSTAIN,
        deadlines: Mapping[str, float | None] = MappingProxyType({}),
        max_concurrency: int = 8,
        metrics: bool = True,
        registry: CollectorRegistry | None = None,
        observers: Iterable[Observer] = (),
    ) -> Guard:
        """A guard from `policy.json`, its scorer loaded by the name in the policy.

        Arguments as for the class; a `scorer` given here takes the place of the
        one that would be loaded, if it has the same fingerprint.

        Raises:
            InputError: the policy cannot be read or used (see `Policy.load`).
            FingerprintMismatchError: scorer or estimator is not the calibrated one.
        """
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy)
        if scorer is None:
            from .signals.relevance import load_scorer

            scorer = load_scorer(loaded.scorer.kind)
        return cls(
            loaded,
            scorer=scorer,
            estimator=estimator,
            conflict_detector=conflict_detector,
            answerability=answerability,
            mode=mode,
            on_error=on_error,
            deadlines=deadlines,
            max_concurrency=max_concurrency,
            metrics=metrics,
            registry=registry,
            observers=observers,
        )

    @property
    def policy(self) -> Policy:
        """The policy this guard serves by."""
        return self._policy

    @property
    def mode(self) -> Mode:
        """`enforce` or `shadow`."""
        return self._settings.mode

    @property
    def metrics(self) -> GuardMetrics | None:
        """What decisions are counted in; None under `metrics=False`."""
        return self._metrics

    def decide(self, question: str, passages: Iterable[object] | None) -> Decision:
        """Decide one question.

        Args:
            question: the user's question.
            passages: retrieved passages: strings, LangChain documents, or mappings
                with `text`; None or empty when nothing was retrieved.

        Returns:
            The decision. Abstaining is a value, not an exception.

        Raises:
            KnowgateError: only under `on_error="raise"`.
        """
        started = time.perf_counter()
        flow = decision_flow(self._settings, question, passages)
        try:
            need = next(flow)
            while True:
                need = flow.send(self._asking.timed(need))
        except StopIteration as stop:
            return self._finish(stop.value, started)

    async def adecide(self, question: str, passages: Iterable[object] | None) -> Decision:
        """As `decide`, without blocking the event loop."""
        started = time.perf_counter()
        flow = decision_flow(self._settings, question, passages)
        try:
            need = next(flow)
            while True:
                need = flow.send(await self._asking.atimed(need))
        except StopIteration as stop:
            return self._finish(stop.value, started)

    def decide_batch(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision]:
        """Decide many questions: one scoring call, language-model calls together or side by side.

        An estimator that has `estimate_many` is asked about many questions at once.

        Args:
            questions: n questions.
            passages: n collections of passages, one per question.

        Returns:
            n decisions in the same order, equal to those of `decide`.

        Raises:
            InputError: the two lengths differ.
            KnowgateError: only under `on_error="raise"`.
        """
        batch = Batch(self._settings, questions, passages)
        while batch.needs:
            needing = batch.split()
            for part in batch.chunks(needing[SignalName.RELEVANCE]):
                batch.answer(part, self._asking.score_together([batch.needs[i] for i in part]))
            alone = needing[SignalName.ANSWERABILITY] + needing[SignalName.CONFLICT]
            for part in batch.chunks(needing[SignalName.CONFIDENCE]):
                found = self._asking.estimate_together([batch.needs[i] for i in part])
                if found is None:
                    alone += part
                else:
                    batch.answer(part, found)
            if alone:
                with ThreadPoolExecutor(min(self._max_concurrency, len(alone))) as pool:
                    # Each in a copy of the caller's context, as tracing wants it.
                    jobs = [(contextvars.copy_context(), batch.needs[i]) for i in alone]
                    singly = pool.map(lambda job: job[0].run(self._asking.timed, job[1]), jobs)
                    batch.answer(alone, list(singly))
            batch.advance()
        return [self._finish(decision, batch.started) for decision in batch.decisions()]

    async def adecide_batch(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision]:
        """As `decide_batch`, without blocking the event loop."""
        batch = Batch(self._settings, questions, passages)
        room = asyncio.Semaphore(self._max_concurrency)

        async def bounded(need: Need) -> tuple[Outcome, float]:
            async with room:
                return await self._asking.atimed(need)

        while batch.needs:
            needing = batch.split()
            for part in batch.chunks(needing[SignalName.RELEVANCE]):
                needs = [batch.needs[i] for i in part]
                batch.answer(part, await self._asking.ascore_together(needs))
            alone = needing[SignalName.ANSWERABILITY] + needing[SignalName.CONFLICT]
            for part in batch.chunks(needing[SignalName.CONFIDENCE]):
                found = await self._asking.aestimate_together([batch.needs[i] for i in part])
                if found is None:
                    alone += part
                else:
                    batch.answer(part, found)
            batch.answer(alone, await asyncio.gather(*(bounded(batch.needs[i]) for i in alone)))
            batch.advance()
        return [self._finish(decision, batch.started) for decision in batch.decisions()]

    def count(self, decision: Decision) -> None:
        """Count a decision that a chain took for the guard, and tell the observers of it."""
        if self._metrics is not None:
            self._metrics.count_decision(decision)
        self._observers.tell(decision)

    def _finish(self, decision: Decision, started: float) -> Decision:
        decision.timings["total"] = time.perf_counter() - started
        self.count(decision)
        return decision
