"""The guard measures signals, chooses a route and counts it; it holds no state of a request."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from ._failures import Patience
from ._measuring import UNTRACED, RelevanceSignal, SignalRunner
from ._metrics import GuardMetrics
from ._observers import Observer, Observers, RetrievalWatch
from ._options import GuardOptions
from ._routing_signals import routing_signals
from ._signal import Veto, bound_vetoes
from .artefacts import Retrieval, require_fingerprint
from .contracts import ConfidenceEstimator, ConflictDetector, RelevanceScorer
from .deadlines import DeadlineRunner, Turns
from .decision import Decision, Mode, OnError, SignalName
from .errors import AllWorkersBusyError, InputError, KnowgateError, QuestionError
from .fingerprint import Content
from .policy import Policy
from .reply_check import DEFAULT_DEADLINE, SUPPORT, ReplyChecker
from .routing import (
    Flow,
    FlowSettings,
    adrive,
    adrive_all,
    at_once,
    decision_flow,
)
from .text import InputLimits, Request, read_request, read_requests

if TYPE_CHECKING:
    from ._tracing import DecisionSpan
    from .signals.support.contracts import ReplyVerdict

    _Begin = Callable[[int], Sequence[DecisionSpan]]

_logger = logging.getLogger("knowgate.guard")
# That read inputs, or check replies, at the same time.
_MAX_THREADS = 16
_Read = TypeVar("_Read")


class _Parts(TypedDict, total=False):
    """Parts of a guard beside policy and scorer; see `Guard`."""

    estimator: ConfidenceEstimator | None
    conflict_detector: ConflictDetector | None
    vetoes: Iterable[Veto[Any]]
    options: GuardOptions | None
    metrics: GuardMetrics | bool
    observers: Iterable[Observer]


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
        vetoes: those that the policy is bound to (`Policy.with_veto`). They are measured
            first, those that cost least before the others, unless the policy can only
            abstain.
        options: mode, failures, deadlines and concurrency.
        metrics: True for prometheus-client's own registry, `GuardMetrics.on(registry)`
            for another one, False for none.
        observers: each is called with every decision after it is counted, in this order
            and on the thread that decided (many at once, where many decide). They must
            be quick and leave the decision as it is. One that raises is counted, logged
            once by type, and changes nothing. A `DecisionLog` is one.

    Attributes:
        policy: that decides.
        scorer: measures relevance; None where the policy never follows a context.
        limits: the most that is read of a question and its passages.
        mode: `enforce` or `shadow`.
        metrics: what this guard has counted; None under `metrics=False`.
        veto_reasons: reasons that the vetoes of this guard can give, failures included.
        reply_checker: checks replies; None where the options do not ask for it.

    Raises:
        FingerprintMismatchError: a part is not the one that the policy is bound to.
        PolicyError: the policy needs a signal that was not given, or is not bound to a veto.
        InputError: the registry has other metrics with the names of the guard's.
        InputError: an argument is not what it should be.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        scorer: RelevanceScorer | None = None,
        estimator: ConfidenceEstimator | None = None,
        conflict_detector: ConflictDetector | None = None,
        vetoes: Iterable[Veto[Any]] = (),
        options: GuardOptions | None = None,
        metrics: GuardMetrics | bool = True,
        observers: Iterable[Observer] = (),
    ) -> None:
        options = GuardOptions() if options is None else options
        signals = routing_signals(policy, scorer, estimator, conflict_detector)
        bound = bound_vetoes(policy.vetoes, vetoes)
        names = [*SignalName, *(veto.name for veto, *_ in bound)]
        measured = [*signals.values(), *(veto for veto, *_ in bound)]
        self.policy: Final = policy
        self.scorer: Final = scorer
        actions, seconds, turns = options.resolved(names, measured)
        self._settings = FlowSettings(policy, signals, bound, actions, Mode(options.mode))
        self.limits: Final = options.limits
        self.mode: Final = self._settings.mode
        self.veto_reasons: Final = tuple(
            one for veto, _, reason in bound for one in (reason, f"{veto.name}_failed")
        )
        name = options.name or "default"
        self._attributes = {
            "knowgate.guard": name,
            "knowgate.policy.fingerprint": policy.sha256[:12],
            "knowgate.policy.calibrated": policy.state,
        }
        self._readers = DeadlineRunner(_MAX_THREADS)
        shared = GuardMetrics.on() if metrics is True else metrics or None
        own = {veto.name: reason for veto, _, reason in bound}
        self.metrics: Final = (
            None if shared is None else shared.of(name, vetoes=own, reasons=self.veto_reasons)
        )
        self._observers = Observers(observers, policy, name, self.metrics).or_none()
        pool, most = DeadlineRunner(options.most_threads), options.max_concurrency
        self._runner = SignalRunner(seconds, turns, pool, self.metrics, most)
        self.reply_checker: Final = self._reply_checker(options)
        if self.metrics is not None:
            self.metrics.count("guards", policy.state)
            self.metrics.show_policy(policy)
        watch = RetrievalWatch(policy.retrieval or Retrieval(), self.metrics, name)
        self._watch = None if policy.retrieval is None else watch
        relevance = signals.get(SignalName.RELEVANCE)
        if isinstance(relevance, RelevanceSignal):
            relevance.on_unread = watch.note_unread
        self._warn(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of a guard that is being built.

        Raises:
            AttributeError: it is one that users read, and the guard has it.
        """
        if not name.startswith("_") and name in self.__dict__:
            raise AttributeError(f"{name!r} of a guard is fixed when it is built")
        super().__setattr__(name, value)

    def _reply_checker(self, options: GuardOptions) -> ReplyChecker | None:
        """What checks replies; None where the options do not ask for it."""
        if options.on_unsupported is None:
            return None
        from .signals.support import SupportCheck

        check = options.support or SupportCheck()
        bound = self.policy.support
        if bound is not None:
            hint = "give the check that the threshold was found with, or calibrate again"
            require_fingerprint(bound.check, check.fingerprint, "support check", hint)
        return ReplyChecker(
            check,
            bound,
            options.on_unsupported,
            self._settings.on_error[SUPPORT],
            options.deadlines.get(SUPPORT, DEFAULT_DEADLINE),
            self.mode is Mode.ENFORCE,
            self.metrics,
            self._observers,
            DeadlineRunner(_MAX_THREADS),
            Turns(_MAX_THREADS, options.max_wait),
        )

    def __copy__(self) -> Guard:
        """Return the guard itself: it never changes, and serves many threads at once."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Guard:
        """Return the guard itself; see `__copy__`."""
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        """Reject being pickled.

        Raises:
            InputError: always; threads, metrics and models do not travel.
        """
        hint = "send the path of its policy, and call Guard.load(path) in the other process"
        raise InputError("a guard cannot be pickled", hint=hint)

    def _warn(self, name: str) -> None:
        """Log what the policy's promise does not cover."""
        policy, guarantee = self.policy, self.policy.guarantee
        passing = [n for n, a in self._settings.on_error.items() if a is OnError.FOLLOW_CONTEXT]
        if guarantee is not None and guarantee.certified and passing:
            _logger.warning(
                'guard %s: under on_error="follow_context" (%s) contexts are followed that were '
                "not judged, which the policy's promise does not cover",
                name,
                ", ".join(passing),
            )
        told = {
            "generated": policy.note,
            "changed": "the policy was changed after its calibration: nothing is guaranteed; "
            "calibrate again",
            "costs": policy.note or "nothing is guaranteed",
        }.get(policy.state)
        if told is not None:
            _logger.warning("guard %s: %s", name, told)

    @classmethod
    def default(
        cls,
        *,
        content: Content = "documents",
        accurate: bool = False,
        options: GuardOptions | None = None,
        metrics: GuardMetrics | bool = True,
        observers: Iterable[Observer] = (),
    ) -> Guard:
        """A guard over the embedded scorer that is not calibrated on your data.

        It follows the context where the embedded scorer finds it more likely than not
        that the passages suffice, and abstains otherwise. `content` says what passages hold:
        chunks of `documents`, or short `answers` such as those of FAQs, where the scorer's values
        lie higher. With `accurate` a cross-encoder reads the best three passages, too
        (`sufficiency_cross`), which `knowgate models ms-marco` has to download once, and which
        takes some ten times as long. Nothing is guaranteed: the policy
        says so in `note`, the metric `knowgate_guards_total` in its label `calibrated`, and
        one line of the log. Calibrate with `knowgate calibrate`, then use `Guard.load`.

        Other arguments as for the class.

        Raises:
            ModelFolderError: `accurate` is asked for, and the model was not downloaded.
        """
        from .signals.relevance import load_scorer
        from .signals.relevance.registry import ACCURATE_SCORER, DEFAULT_SCORER

        scorer = load_scorer(ACCURATE_SCORER if accurate else DEFAULT_SCORER)
        policy = Policy.for_scorer(scorer, content=content)
        _log_uncalibrated()
        return cls(policy, scorer=scorer, options=options, metrics=metrics, observers=observers)

    @classmethod
    def load(
        cls,
        policy: str | os.PathLike[str] | Policy,
        *,
        scorer: RelevanceScorer | None = None,
        passages: str | os.PathLike[str] | None = None,
        **parts: Unpack[_Parts],
    ) -> Guard:
        """A guard from `policy.json`, its scorer loaded by the name in the policy.

        Only registered scorers are loaded by name; one in a folder must be given. Arguments
        as for the class; a `scorer` given here takes the place of the one that would be
        loaded, if it has the same fingerprint. For the policy of a cascade it may be the costly
        scorer alone. `passages` is a folder that `knowgate index`
        wrote: the passages in it are not encoded again, others are. Options without a name take
        that of the file.

        Raises:
            InputError: the policy cannot be read or used (see `Policy.load`), or both `scorer`
                and `passages` are given: `load_scorer(NAME, passages=DIR)` takes both.
            ModelFolderError: the folder of passages is damaged, or another scorer's.
            FingerprintMismatchError: a part is not the one that the policy is bound to.
        """
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy)
        if scorer is None:
            from .signals.relevance import load_scorer

            if passages is None:
                scorer = load_scorer(loaded.scorer)
            else:
                scorer = load_scorer(loaded.scorer, passages=os.fspath(passages))
        elif passages is not None:
            what = "scorer and passages are mutually exclusive"
            raise InputError(what, hint="pass scorer=load_scorer(NAME, passages=DIR)")
        elif loaded.scorer.inner:
            from .signals.relevance.registry import completed_scorer

            scorer = completed_scorer(loaded.scorer, scorer)
        if not isinstance(policy, Policy):
            parts["options"] = (parts.get("options") or GuardOptions()).named_after(policy)
        guard = cls(loaded, scorer=scorer, **parts)
        if guard.metrics is not None and not isinstance(policy, Policy):
            guard.metrics.show_policy_file(policy)
        return guard

    def decide(self, question: str, passages: Iterable[object] | None) -> Decision:
        """Decide one question.

        Args:
            question: the user's question.
            passages: retrieved passages: strings, LangChain documents, or mappings
                with `text`; None or empty when nothing was retrieved. Each is read once,
                and its text is what is judged.

        Returns:
            The decision. Abstaining is a value, not an exception.

        Raises:
            KnowgateError: only under `on_error="raise"`.
        """
        started = time.perf_counter()
        with self._span() as span:
            request = read_request(question, passages, self.limits)
            flow = self._flow(request, span)
            decision = at_once(adrive(flow, partial(self._runner.measure, awaits=False)))
            return self._finish(decision, started, request, span)

    async def adecide(self, question: str, passages: Iterable[object] | None) -> Decision:
        """As `decide`, without blocking the event loop."""
        started = time.perf_counter()
        with self._span() as span:
            request: Request | QuestionError
            try:
                read = partial(read_request, question, passages, self.limits)
                request = await self._aread(read, (question,), (passages,))
            except InputError as error:
                request = QuestionError(error.what)
            flow = self._flow(request, span)
            decision = await adrive(flow, partial(self._runner.measure, awaits=True))
            return self._finish(decision, started, request, span)

    def decide_batch(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision]:
        """Decide many questions: scored together, language-model calls together or side by side.

        Args:
            questions: n questions.
            passages: n collections of passages, one per question.

        Returns:
            n decisions in the same order, equal to those of `decide` as far as two deadlines of
            each signal suffice; questions left after that count as those of a failed signal.

        Raises:
            InputError: the two lengths differ, or there are more questions than
                `InputLimits` allow.
            KnowgateError: only under `on_error="raise"`.
        """
        return _all_decided(self.decide_each(questions, passages))

    async def adecide_batch(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision]:
        """As `decide_batch`, without blocking the event loop."""
        return _all_decided(await self.adecide_each(questions, passages))

    def decide_each(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision | KnowgateError]:
        """As `decide_batch`, with the error in place of a decision under `on_error="raise"`."""
        return at_once(self._decide_each(questions, passages, awaits=False))

    async def adecide_each(
        self, questions: Sequence[str], passages: Sequence[Iterable[object] | None]
    ) -> list[Decision | KnowgateError]:
        """As `decide_each`, without blocking the event loop."""
        return await self._decide_each(questions, passages, awaits=True)

    async def _decide_each(
        self, questions: Sequence[str], passages: Sequence[Any], *, awaits: bool
    ) -> list[Decision | KnowgateError]:
        started, patience = time.perf_counter(), dict[str, Patience]()
        with self._batch_span() as begin:
            read = partial(read_requests, questions, passages, self.limits)
            requests = await self._aread(read, questions, passages) if awaits else read()
            spans: Iterable[DecisionSpan | None]
            spans = repeat(None) if begin is None else begin(len(requests))
            pairs = list(zip(requests, spans, strict=False))
            flows = [self._flow(*pair) for pair in pairs]
            measure = partial(self._runner.measure_batch, batch=patience, awaits=awaits)
            decided = await adrive_all(flows, measure)
            for one, (request, span) in zip(decided, pairs, strict=True):
                if not isinstance(one, KnowgateError):
                    self._finish(one, started, request, span)
                elif span is not None:
                    span.fail(one)
            return decided

    def check_reply(
        self, reply: str, passages: Sequence[object], question: str = ""
    ) -> ReplyVerdict:
        """Check a reply against the passages that it was generated from.

        Args:
            reply: as generated.
            passages: those that the model was given.
            question: what was asked.

        Returns:
            The verdict, with the text to deliver.

        Raises:
            InputError: the options have no `on_unsupported`.
            SignalError: the check failed, under `on_error="raise"`.
        """
        return self._checker().judge(reply, passages, question)

    async def acheck_reply(
        self, reply: str, passages: Sequence[object], question: str = ""
    ) -> ReplyVerdict:
        """As `check_reply`, without blocking the event loop."""
        return await self._checker().ajudge(reply, passages, question)

    def _checker(self) -> ReplyChecker:
        if self.reply_checker is None:
            what = "is None, so replies are not checked"
            hint = 'Guard.load(…, options=GuardOptions(on_unsupported="flag"))'
            raise InputError(what, where="on_unsupported", hint=hint)
        return self.reply_checker

    def count(self, decision: Decision) -> None:
        """Count a decision that a chain made for the guard, and call the observers."""
        self._tell(decision, None)

    def count_turn(self, turn: str) -> None:
        """Count a message of a conversation, apart from decisions.

        Args:
            turn: `question`, `follow_up`, `rewriting_failed` or `small_talk`.
        """
        if self.metrics is not None:
            self.metrics.count_turn(turn)

    async def _aread(self, read: Callable[[], _Read], questions: Any, passages: Any) -> _Read:
        """Read input; on another thread where that may take long."""
        if InputLimits.reads_quickly(questions, passages):
            return read()
        try:
            return await self._readers.acall(read, None)
        except AllWorkersBusyError:
            raise InputError("too many earlier inputs are still being read") from None

    def _span(self) -> AbstractContextManager[DecisionSpan | None]:
        """The span around one decision, if the application exports spans."""
        if _is_untraced():
            return UNTRACED
        from ._tracing import decision_span

        return decision_span(self._attributes)

    def _batch_span(self) -> AbstractContextManager[_Begin | None]:
        """The span around a batch, if the application exports spans."""
        if _is_untraced():
            return UNTRACED
        from ._tracing import batch_span

        return batch_span(self._attributes)

    def _flow(self, request: Request | QuestionError, span: DecisionSpan | None) -> Flow:
        # Before the decision, which may raise.
        if self._watch is not None and isinstance(request, Request):
            self._watch.look(request)
        return decision_flow(self._settings, request, span)

    def _finish(
        self,
        decision: Decision,
        started: float,
        request: Request | QuestionError,
        span: DecisionSpan | None,
    ) -> Decision:
        decision.timings["total"] = time.perf_counter() - started
        readable = request if isinstance(request, Request) else None
        if span is None:
            self._tell(decision, readable)
        else:
            with span.current():
                self._tell(decision, readable)
            span.decided(decision, readable)
        return decision

    def _tell(self, decision: Decision, request: Request | None) -> None:
        if self.metrics is not None:
            self.metrics.count_decision(decision)
        if self._observers is not None:
            self._observers.tell(decision, request)


def _all_decided(decided: Iterable[Decision | KnowgateError]) -> list[Decision]:
    decisions = []
    for one in decided:
        if isinstance(one, KnowgateError):
            raise one
        decisions.append(one)
    return decisions


def _is_untraced() -> bool:
    """Whether the application exports no spans; it cannot before it imported OpenTelemetry."""
    api: Any = sys.modules.get("opentelemetry.trace")
    provider_of = getattr(api, "get_tracer_provider", None)
    if provider_of is None:
        return True
    return isinstance(provider_of(), (api.ProxyTracerProvider, api.NoOpTracerProvider))


@cache
def _log_uncalibrated() -> None:
    _logger.warning(
        "Guard.default() is not calibrated on your data: its threshold is a default without "
        "a guarantee; calibrate a policy with `knowgate calibrate` and use Guard.load"
    )
