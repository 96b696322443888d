"""Protocols of scorers, estimators, detectors and language models.

The guard measures through these protocols. An implementation needs no base class:
matching the methods is enough. One that derives from a scorer's protocol writes the forms for
many questions only.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from .errors import InputError, LanguageModelError, SignalValueError
from .fingerprint import Fingerprint, RelevanceStage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Further names of this module are listed by the package.


@dataclass(frozen=True, slots=True)
class Cost:
    """The most that one question may cost an estimator.

    Attributes:
        greedy_calls: answers at temperature 0.
        sampled_calls: answers above temperature 0.
        other_calls: everything else that is asked: yes or no, a number in words.
        forward_passes: passes of the model without generating, e.g. for options.
    """

    greedy_calls: int = 0
    sampled_calls: int = 0
    other_calls: int = 0
    forward_passes: int = 0

    @property
    def most_calls(self) -> int:
        """Calls of the language model at most, each generated answer counted as one."""
        return self.greedy_calls + self.sampled_calls + self.other_calls


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer drawn from a language model.

    Attributes:
        text: the generated text, without the prompt and without stop strings.
        token_logprobs: natural-log probability of each generated token under the
            model's own distribution at temperature 1, or None where the model
            does not give them.
    """

    text: str
    token_logprobs: tuple[float, ...] | None = None


class PartialGenerationsError(LanguageModelError):
    """Only some of the generations asked for arrived.

    Args:
        message: what failed; never text from the caller.
        generations: what arrived: one list per prompt, in order, of 0 to n
            generations, those that failed left out.
        errors: one per prompt: why its list is short, None where it is not.
    """

    def __init__(
        self,
        message: str,
        generations: Sequence[Sequence[Generation]],
        errors: Sequence[LanguageModelError | None],
    ) -> None:
        self.generations = tuple(tuple(row) for row in generations)
        self.errors = tuple(errors)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Confidence:
    """The result of a confidence estimator for one question.

    Attributes:
        value: raw confidence in [0, 1] that the closed-book answer is right.
        answer: the closed-book answer that the value speaks of.
        samples_drawn: sampled answers used, the greedy one not counted.
        samples_saved: samples that stopping early made unnecessary.
        calls: calls of the language model, one per generated answer.
        partial: True when the model failed part-way and fewer samples than the
            estimator asked for had to do.
    """

    value: float
    answer: str
    samples_drawn: int = 0
    samples_saved: int = 0
    calls: int = 0
    partial: bool = False


@runtime_checkable
class LanguageModel(Protocol):
    """A text-in, text-out model that can sample.

    `generate` and `agenerate` return one list per prompt, in the order given,
    each with `n` generations. `temperature` 0 means greedy. A model that can
    fail raises a `knowgate.guard.LanguageModelError`; it never returns fewer
    than `n` generations silently, but may hand over those that did arrive in a
    `knowgate.guard.PartialGenerationsError`.

    A model that honours seeds gives the k-th generation (from 0) of a prompt what
    `seed + k` would give the first: samples drawn in waves are then the very ones
    that would have been drawn at once.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and settings, e.g. for stored estimates."""

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Draw `n` generations for each prompt."""

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As `generate`, without blocking the event loop."""


def checked_language_model(model: LanguageModel) -> LanguageModel:
    """`model`, rejected here rather than by each decision.

    Raises:
        InputError: it lacks a part of `LanguageModel`.
    """
    names, hint = ("fingerprint", "generate", "agenerate"), "wrap a LangChain model in "
    hint += "knowgate.adapters.langchain.ChatModelLM"
    _require_parts(model, "language model", names, hint)
    return model


def _require_parts(part: object, what: str, names: Sequence[str], hint: str) -> None:
    if isinstance(part, type):
        fault = f"{part.__name__} is a class, not a {what}"
        raise InputError(fault, hint=f"pass an object: {part.__name__}()")
    nowhere = object()
    # What a scorer inherits from the protocol computes nothing.
    unwritten = RelevanceScorer.score_pairs, SetRelevanceScorer.score_sets
    for name in names:
        # Looked up without asking for it: a fingerprint may hash gigabytes of weights.
        found = inspect.getattr_static(part, name, nowhere)
        missing = found is nowhere and not hasattr(part, name)
        if missing or any(found is one for one in unwritten):
            fault = f"a {type(part).__name__} is not a {what} of the guard (it has no {name})"
            raise InputError(fault, hint=hint)


@runtime_checkable
class ScoringLanguageModel(Protocol):
    """A model that scores given continuations without generating."""

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        """Natural-log likelihoods of shape (len(prompts), len(options))."""


@runtime_checkable
class RelevanceScorer(Protocol):
    """Scores how far passages suffice to answer a question.

    Scores are raw: any finite scale on which higher means more sufficient. The
    policy's calibrator makes a probability of the aggregated value.

    The `kind` of its fingerprint is the name that it is registered under, if it is registered:
    a guard that is loaded from a policy finds it by that.

    A scorer that calls `guard.deadlines.check_deadline` before each pass of its model ends in
    time when it is abandoned. One whose own class has `checks_deadline = True` besides is
    measured on the caller's thread by the sync forms, which costs less; this is not inherited.
    The same holds for estimators and conflict detectors.

    A scorer with `reads_metadata = True` is given passages that have `metadata`, that of the
    document each was read from, besides being text.

    A scorer that waits rather than computes may also have `ascore` and `ascore_pairs` (and
    `ascore_set` and `ascore_sets`, where it judges sets): the async forms of the guard then
    await them, with the same results, where they otherwise use a worker thread.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Scores of shape (len(passages),), in the order of `passages`."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scores of shape (len(pairs),) for (question, passage) pairs."""


_SCORER = "derive it from knowgate.guard.RelevanceScorer, with a fingerprint and score_pairs"


def require_scorer(scorer: object, methods: Sequence[str]) -> None:
    """Reject what lacks a method or its fingerprint, which is not asked for: it may take long.

    Raises:
        InputError: it lacks one.
    """
    _require_parts(scorer, "relevance scorer", ("fingerprint", *methods), _SCORER)


def checked_scorer(
    scorer: RelevanceScorer, methods: Sequence[str] = ("score_pairs",)
) -> RelevanceScorer:
    """`scorer`, rejected here rather than at each question.

    Args:
        scorer: what was given as one.
        methods: that will be called.

    Raises:
        InputError: it lacks a method or its fingerprint.
    """
    require_scorer(scorer, methods)
    if not isinstance(scorer.fingerprint, Fingerprint):
        kind = type(scorer.fingerprint).__name__
        fault = f"the fingerprint of a {type(scorer).__name__} is a {kind}, not a Fingerprint"
        raise InputError(fault, hint=_SCORER)
    return scorer


@dataclass(frozen=True, slots=True)
class SetScore:
    """How far several passages suffice, each alone and all together.

    Attributes:
        scores: one raw score per passage, in order, as `RelevanceScorer.score` gives.
        joint: one raw value for all passages together, finite, higher meaning more
            sufficient; its scale may be another than that of `scores`.
        stage: of a cascade, which stage `joint` rests on; None for any other scorer.
    """

    scores: tuple[float, ...]
    joint: float
    stage: RelevanceStage | None = None


@runtime_checkable
class SetRelevanceScorer(RelevanceScorer, Protocol):
    """A scorer that also judges several passages together.

    Two halves of an answer can suffice together, and five near-misses need not: a
    policy with the aggregator `joint` uses the joint value. Any scorer may also have
    `supports(question) -> bool`: where it says False the guard measures no relevance,
    because the numbers would mean nothing for a question in that language.
    """

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """The scores of at least one passage, and their joint value."""
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its passages, equal to it.

        Raises:
            InputError: a question has no passage.
        """


@runtime_checkable
class ConfidenceEstimator(Protocol):
    """Estimates whether the language model itself would answer rightly.

    One that asks its language model about many questions together also has `estimate_many` and
    `aestimate_many`, which take questions and `on_error` ("raise" or "return" an error in its
    question's place) and give the values of `estimate`, in order.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""

    def estimate(self, question: str) -> Confidence:
        """Confidence in the closed-book answer to `question`."""

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`, without blocking the event loop."""


@runtime_checkable
class ConflictDetector(Protocol):
    """Detects whether the closed-book answer contradicts the passages."""

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the passages support another answer than the closed-book one."""

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""


ConflictKind = Literal["none", "memory", "passages", "both"]
ConflictBetween = Literal["memory", "passages", "both"]


@dataclass(frozen=True, slots=True)
class View:
    """One answer to a question, and who gives it.

    Attributes:
        answer: in the words of the first that gives it.
        passages: indices of the passages that support it, rising; empty where only
            the model's memory does.
        from_memory: whether the closed-book answer says the same.
    """

    answer: str
    passages: tuple[int, ...] = ()
    from_memory: bool = False


@dataclass(frozen=True, slots=True)
class ConflictFinding:
    """Which answers there are to one question, and whether they contradict each other.

    Attributes:
        conflict: whether any two answers differ in meaning.
        kind: `memory` where the passages answer and none of them says what the
            closed-book answer says, `passages` where they differ among themselves,
            `both`, or `none`.
        views: the answers, no two of the same meaning; those of passages first, in
            the order of their first passage.
    """

    conflict: bool
    kind: ConflictKind
    views: tuple[View, ...] = ()

    @classmethod
    def of(cls, views: Sequence[View]) -> ConflictFinding:
        """The finding that follows from `views`.

        Example:
            >>> ConflictFinding.of([View("Paris", (0,)), View("Lyon", (), True)]).kind
            'memory'
        """
        supported = [view for view in views if view.passages]
        alone = any(view.from_memory and not view.passages for view in views)
        memory = bool(supported) and alone
        passages = len(supported) > 1
        kinds: tuple[ConflictKind, ...] = ("none", "memory", "passages", "both")
        kind = kinds[memory + 2 * passages]
        return cls(kind != "none", kind, tuple(views))

    def counts(self, between: ConflictBetween) -> bool:
        """Whether there is a conflict of the kind that `between` asks for."""
        return self.conflict and (between == "both" or self.kind in (between, "both"))

    def at(self, positions: Sequence[int]) -> ConflictFinding:
        """The same finding with passage i called `positions[i]`."""
        views = (
            replace(view, passages=tuple(positions[i] for i in view.passages))
            for view in self.views
        )
        return replace(self, views=tuple(views))


@runtime_checkable
class ConflictExaminer(ConflictDetector, Protocol):
    """A conflict detector that also returns the different answers and their sources.

    The guard asks `examine` of a detector that has it, and `detect` otherwise. One that
    does not compare passages with each other says so by `compares_passages = False`.
    """

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """All answers there are; an empty closed-book answer stands for none."""

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""


class Premise(StrEnum):
    """Whether a question has an answer according to the passages."""

    ANSWERABLE = "answerable"
    UNANSWERABLE = "unanswerable"
    UNDECIDED = "undecided"


class PremiseFault(StrEnum):
    """Why a question has no answer.

    `empty_intersection`: nothing meets all its conditions. `impossible_time`: nothing holds
    at the time it asks about. `false_options`: none of the options it offers is right.
    """

    EMPTY_INTERSECTION = "empty_intersection"
    IMPOSSIBLE_TIME = "impossible_time"
    FALSE_OPTIONS = "false_options"


@dataclass(frozen=True, slots=True)
class Answerability:
    """What the passages say about a question's premise.

    Attributes:
        premise: `undecided` where they do not tell, which changes nothing.
        fault: why there is no answer; None unless `unanswerable`.
        probability: that there is an answer, in [0, 1]; None where the detector knows no in
            between.
        passages: indices of the passages that decided it, rising.
    """

    premise: Premise
    fault: PremiseFault | None = None
    probability: float | None = None
    passages: tuple[int, ...] = ()


@runtime_checkable
class TextEmbedder(Protocol):
    """Maps texts to vectors whose cosine is their similarity, e.g. `BiEncoderScorer`."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of unit length, of shape (len(texts), dimensions)."""


@runtime_checkable
class EntailmentModel(Protocol):
    """Judges whether one text follows from another, e.g. `CrossEncoderEntailment`."""

    def entails(self, premise: str, hypothesis: str) -> bool | float:
        """A verdict, or the probability in [0, 1] that `hypothesis` follows."""


def checked_entailment(model: EntailmentModel | None, where: str) -> EntailmentModel | None:
    """The entailment model, if there is one.

    Raises:
        InputError: it has no `entails`.
    """
    if model is None or isinstance(model, EntailmentModel):
        return model
    raise InputError(
        f"a {type(model).__name__} has no entails(premise, hypothesis)",
        where=where,
        hint="give a CrossEncoderEntailment, or a class of your own with that method",
    )


def plain(value: Any) -> Any:
    """`value`, a scalar of a numerical library converted to Python's own kind."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def finite_or_none(value: float | None) -> float | None:
    """`value`, or None where it is missing, NaN, infinite or no float can hold it."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:
        # An integer with hundreds of digits.
        return None


def probability_of(model: EntailmentModel, premise: str, hypothesis: str, *, signal: str) -> float:
    """Probability in [0, 1] that an entailment model gives; 1.0 and 0.0 for a bare yes and no.

    Raises:
        SignalValueError: it is neither; names the signal that asked.
    """
    found: Any = plain(model.entails(premise, hypothesis))
    if not isinstance(found, int | float) or not 0.0 <= found <= 1.0:
        raise SignalValueError(signal, "the entailment is neither a bool nor a probability")
    return float(found)
