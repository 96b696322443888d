"""Putting answers that mean the same into clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from ...contracts import (
    Confidence,
    Cost,
    EntailmentModel,
    Generation,
    LanguageModel,
    TextEmbedder,
)
from ...errors import InputError, LanguageModelError, PartialGenerationsError
from ...matching import MeaningMatcher, canonical_answer, is_refusal, same_answer
from ...policy import Fingerprint
from ...prompts import Prompt, bundled_prompt
from ._driver import Compute, Draw, Request, Steps, StepwiseEstimator
from ._stopping import (
    BayesianStopping,
    CurtailedSampling,
    FullSampling,
    Sampling,
    StoppingRule,
    check_rule,
)
from ._token_probability import GreedyShortcut

Settings = Mapping[str, str | int | float | bool | None]


@runtime_checkable
class AnswerClusters(Protocol):
    """A way to put answers into clusters."""

    @property
    def settings(self) -> Settings:
        """What fingerprints say about it."""
        ...

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """A cluster number for each answer; numbers count up from 0 as clusters appear."""
        ...


ClustersFrom = AnswerClusters | EntailmentModel | TextEmbedder | Callable[[str, str], bool] | None
_NUMBER = re.compile(r"\d+(?:[.:/]\d+)*")


class EqualAnswers:
    """Answers are one cluster when they are equal in their canonical form.

    Example:
        >>> EqualAnswers().cluster("Where?", ["Paris.", "the Paris", "Rome"])
        [0, 0, 1]
    """

    @property
    def settings(self) -> Settings:
        """Nothing but its name."""
        return MappingProxyType({"clusters": "equal"})

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """Cluster numbers; the question plays no part."""
        form = {answer: canonical_answer(answer) for answer in dict.fromkeys(answers)}
        numbers: dict[str, int] = {}
        return [numbers.setdefault(form[answer], len(numbers)) for answer in answers]


class MatchedAnswers:
    """Answers are one cluster when a function of both says so, e.g. a `SameMeaning`.

    Each answer is compared with the first of every cluster so far and joins the first
    that fits. A function with a method `about(question)` is told the question by it.

    Args:
        same: whether two answers are the same.
    """

    def __init__(self, same: Callable[[str, str], bool]) -> None:
        self._same = same

    @property
    def settings(self) -> Settings:
        """The function's fingerprint where it has one, else its name."""
        return MappingProxyType({"clusters": "matched", "same": _name_of(self._same)})

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """Cluster numbers by the function."""
        about = getattr(self._same, "about", None)
        same = about(question) if about else self._same
        return _joined(answers, lambda first, second: same(answers[first], answers[second]))


class EntailedAnswers:
    """Answers are one cluster when each entails the other.

    Each answer is compared with the first of every cluster so far and joins the first
    that fits, so it is never in two. Answers that are equal in their canonical form are
    not compared: at most one pair of calls per two different answers.

    Args:
        model: the judge of entailment.
        with_question: put the question before both answers, without which short
            answers say too little.

    Source: bidirectional entailment clustering, Kuhn et al. 2023, Algorithm 1.
    """

    def __init__(self, model: EntailmentModel, *, with_question: bool = True) -> None:
        self._model = model
        self._with_question = with_question

    @property
    def settings(self) -> Settings:
        """The judge's fingerprint where it has one, else the name of its class."""
        return MappingProxyType(
            {
                "clusters": "entailment",
                "judge": _name_of(self._model),
                "with_question": self._with_question,
            }
        )

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """Cluster numbers by bidirectional entailment."""
        before = f"{question.strip()} " if self._with_question else ""

        def same(first: str, second: str) -> bool:
            one, two = before + first, before + second
            # A judge that gives probabilities in the place of verdicts is read at one half.
            return self._model.entails(one, two) >= 0.5 and self._model.entails(two, one) >= 0.5

        return _joined(answers, lambda first, second: same(answers[first], answers[second]))


class EmbeddedAnswers:
    """Answers are one cluster when their embeddings are close.

    Each answer is compared with the first of every cluster so far and joins the first
    that is close enough; answers with different numbers are never one. Weak on names,
    whose embeddings are alike: prefer entailment, or equality on short answers.

    Args:
        embedder: what embeds.
        similarity: cosine in (-1, 1] from which on two answers are one.

    Raises:
        InputError: `similarity` is out of its range.
    """

    def __init__(self, embedder: TextEmbedder, *, similarity: float = 0.9) -> None:
        if not -1.0 < similarity <= 1.0:
            raise InputError("must be above -1 and at most 1", where="similarity")
        self._embedder = embedder
        self._similarity = similarity

    @property
    def settings(self) -> Settings:
        """The embedder's fingerprint where it has one, else the name of its class."""
        return MappingProxyType(
            {
                "clusters": "embedding",
                "embedder": _name_of(self._embedder),
                "similarity": self._similarity,
            }
        )

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """Cluster numbers by cosine; the question plays no part."""
        vectors = np.asarray(self._embedder.embed(list(answers)), dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        cosines = unit @ unit.T
        # A text's cosine with itself may be rounded to just below 1.
        least = self._similarity - 1e-6
        numbers = [sorted(_NUMBER.findall(canonical_answer(answer))) for answer in answers]

        def same(first: int, second: int) -> bool:
            return numbers[first] == numbers[second] and bool(cosines[first, second] >= least)

        return _joined(answers, same)


def as_clusters(clusters: ClustersFrom) -> AnswerClusters:
    """A way to cluster from what the user gave, by what it can do; equality for None.

    Raises:
        InputError: it can neither cluster, judge, embed nor be called.
    """
    if clusters is None:
        return EqualAnswers()
    if isinstance(clusters, AnswerClusters):
        return clusters
    if isinstance(clusters, EntailmentModel):
        return EntailedAnswers(clusters)
    if isinstance(clusters, TextEmbedder):
        return EmbeddedAnswers(clusters)
    if callable(clusters):
        return MatchedAnswers(clusters)
    raise InputError(
        f"a {type(clusters).__name__} cannot cluster answers",
        where="clusters",
        hint="give an object with entails(premise, hypothesis), with embed(texts), or a function",
    )


def _joined(answers: Sequence[str], same: Callable[[int, int], bool]) -> list[int]:
    """Cluster numbers; `same` compares two places, and equal answers are not compared."""
    firsts: list[int] = []
    known: dict[str, int] = {}
    numbers: list[int] = []
    for place, answer in enumerate(answers):
        form = canonical_answer(answer)
        if form not in known:
            known[form] = next(
                (number for number, first in enumerate(firsts) if same(first, place)), len(firsts)
            )
            if known[form] == len(firsts):
                firsts.append(place)
        numbers.append(known[form])
    return numbers


def _name_of(part: object) -> str:
    fingerprint = getattr(part, "fingerprint", None)
    if fingerprint is None:
        return str(getattr(part, "__qualname__", type(part).__qualname__))
    dump = getattr(fingerprint, "model_dump_json", None)
    return str(dump() if dump else fingerprint)


Stopping = Literal["none", "curtailed", "bayesian"] | StoppingRule


_SHORTCUT = GreedyShortcut()


class SampledConsistency(StepwiseEstimator):
    """Share of up to n sampled answers that repeat the greedy answer.

    One greedy closed-book answer is drawn. Where the model gives log-probabilities
    and the greedy answer's own already settles the matter, that is the value and
    nothing is sampled. Otherwise samples are drawn in waves until the stopping rule
    says enough. A wave is never larger than what any outcome still needs, so drawing
    its samples at once wastes none. The value is matches / samples drawn; under the
    `curtailed` rule it is at least τ exactly when that of all n samples would be. A
    greedy answer that is a refusal has confidence 0.

    Where the model fails part-way, what was drawn decides if it is enough, and the
    confidence says `partial`.

    Args:
        language_model: what is asked; samples of one wave are drawn side by side
            as far as its own bound allows.
        sampling: how many samples a full estimate has, and how they are drawn. The
            k-th has seed + 1 + k whatever the waves, so every rule sees the same.
        threshold: share τ from which on an answer counts as known; a guard puts its
            policy's in the place of it.
        prompt: closed-book prompt with a `{question}` slot.
        same: when two answers count as one, e.g. an `AnswerMatcher` with aliases or a
            `MeaningMatcher`.
        stopping: `curtailed` (exact: the decision of all n samples), `bayesian`
            (`BayesianStopping` with its defaults), `none` (always n), or a rule.
        shortcut: when the greedy answer's own probability decides without sampling;
            None for never.
        minimum_samples: how many samples decide at least where the model fails.

    Raises:
        InputError: `language_model` is none, e.g. a bare LangChain chat model, or an
            argument is out of its range.

    Source: the PK estimation of UniKnow (n = 10, τ = 0.7), with the greedy answer
    in the place of the gold answer; self-consistency, Wang et al. 2023.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        sampling: Sampling | None = None,
        threshold: float = 0.7,
        prompt: Prompt | None = None,
        same: Callable[[str, str], bool] = same_answer,
        stopping: Stopping = "curtailed",
        shortcut: GreedyShortcut | None = _SHORTCUT,
        minimum_samples: int = 3,
    ) -> None:
        super().__init__(language_model)
        sampling = Sampling() if sampling is None else sampling
        n = sampling.n
        check_rule(n, threshold)
        if minimum_samples < 1:
            raise InputError("must be at least 1", where="minimum_samples")
        self._n, self._threshold, self._temperature = n, threshold, sampling.temperature
        self._prompt = prompt or bundled_prompt("closed_book")
        self._same = same
        self._seed = sampling.seed
        self._stopping = stopping
        self._rule = _rule(stopping, n, threshold)
        self._shortcut = shortcut or GreedyShortcut(None)
        self._minimum_samples = min(minimum_samples, n)

    def deciding_at(self, threshold: float) -> SampledConsistency:
        """The same estimator, stopping once "at least `threshold`" is decided.

        Args:
            threshold: share in (0, 1]; the guard gives its policy's.
        """
        if threshold == self._threshold:
            return self
        stopping = self._stopping
        if not isinstance(stopping, str):
            deciding_at = getattr(stopping, "deciding_at", None)
            stopping = stopping if deciding_at is None else deciding_at(threshold)
        check_rule(self._n, threshold)
        changed = copy(self)
        changed._threshold, changed._stopping = threshold, stopping
        changed._rule = _rule(stopping, self._n, threshold)
        return changed

    @property
    def cost(self) -> Cost:
        """One greedy answer and at most n samples."""
        return Cost(greedy_calls=1, sampled_calls=self._n)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this estimator is bound to."""
        return Fingerprint(
            kind="sampled_consistency",
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "n": self._n,
                "threshold": self._threshold,
                "temperature": self._temperature,
                "prompt_sha256": self._prompt.sha256,
                "same": _name(self._same),
                "stopping": _name(self._rule),
                "accept_probability": self._shortcut.accept_probability,
                "reject_probability": self._shortcut.reject_probability,
            },
        )

    def _steps(self, question: str) -> Steps:
        prompt = self._prompt.fill(question=question)
        [greedy] = yield Draw(prompt, 1, 0.0, self._seed)
        answer = greedy.text.strip()
        if is_refusal(answer):
            return Confidence(0.0, answer, samples_drawn=0, samples_saved=self._n, calls=1)
        settled = self._shortcut.settled(greedy, self._n, self._threshold, self._temperature)
        if settled is not None:
            return Confidence(settled, answer, samples_drawn=0, samples_saved=self._n, calls=1)
        matches = misses = 0
        partial = False
        while (wave := self._next_wave(matches, misses)) > 0:
            # Waves must not repeat each other's samples, so the seed moves on.
            seed = None if self._seed is None else self._seed + matches + misses + 1
            try:
                arrived = yield Draw(prompt, wave, self._temperature, seed)
            except LanguageModelError as error:
                arrived = self._what_arrived(error, matches + misses)
                partial = True
            repeated = yield from self._repeats(answer, arrived)
            matches, misses = matches + repeated, misses + len(arrived) - repeated
            if partial:
                break
        drawn = matches + misses
        # A decision that those that arrived fix is none the worse for the rest.
        partial = partial and self._next_wave(matches, misses) > 0
        saved = 0 if partial else self._n - drawn
        return Confidence(matches / drawn, answer, drawn, saved, 1 + drawn, partial)

    def _next_wave(self, matches: int, misses: int) -> int:
        return min(self._rule.next_wave(matches, misses), self._n - matches - misses)

    def _what_arrived(self, error: LanguageModelError, drawn: int) -> list[Generation]:
        rows = error.generations if isinstance(error, PartialGenerationsError) else ()
        arrived = [generation for row in rows for generation in row]
        if drawn + len(arrived) < self._minimum_samples:
            raise error
        return arrived

    def _repeats(self, answer: str, samples: list[Generation]) -> Generator[Request, Any, int]:
        def count() -> int:
            return sum(self._same(answer, sample.text) for sample in samples)

        if isinstance(self._same, MeaningMatcher):
            found: int = yield Compute(count)
            return found
        return count()


def _rule(stopping: Stopping, n: int, threshold: float) -> StoppingRule:
    if stopping == "curtailed":
        return CurtailedSampling(n, threshold)
    if stopping == "bayesian":
        return BayesianStopping(n, threshold)
    if stopping == "none":
        return FullSampling(n)
    if not isinstance(stopping, StoppingRule):
        raise InputError(
            f"{stopping!r} is unknown", where="stopping", hint="none, curtailed, bayesian or a rule"
        )
    if stopping.next_wave(0, 0) < 1:
        raise InputError("draws nothing", where="stopping", hint="let the first wave have samples")
    return stopping


def _name(part: object) -> str:
    """What tells one rule or matcher from another: its fingerprint, settings or name."""
    if isinstance(fingerprint := getattr(part, "fingerprint", None), str):
        return fingerprint
    if isinstance(part, CurtailedSampling | BayesianStopping | FullSampling):
        return repr(part)
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"
