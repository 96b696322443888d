"""Confidence from the number of different meanings of sampled answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, get_args, runtime_checkable

from ..._model_steps import Draw, Steps, draw_some, log_sum_exp
from ...contracts import (
    Confidence,
    Cost,
    EntailmentModel,
    Generation,
    LanguageModel,
)
from ...errors import InputError, LanguageModelError, require_known
from ...matching import Sameness, SentenceMatcher, canonical_answer, told_question
from ...prompts import Prompt
from ._driver import ClosedBookEstimator
from ._single_answers import required_logprobs
from .stopping import Sampling

Settings = Mapping[str, str | int | float | bool | None]


@runtime_checkable
class AnswerClusters(Protocol):
    """Clusters answers by meaning."""

    @property
    def settings(self) -> Settings:
        """What fingerprints record."""

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """A cluster number for each answer; numbers count up from 0 as clusters appear."""


ClustersFrom = AnswerClusters | EntailmentModel | Sameness | None


@dataclass(frozen=True)
class Clusters:
    """Each answer is compared with the first of every cluster so far and joins the first that fits.

    So it is never in two. Answers that are equal in their canonical form are not compared.

    Attributes:
        settings: what fingerprints record.
        comparison: by a question, whether two answers to it are the same.
    """

    settings: Settings
    comparison: Callable[[str], Sameness]

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """A cluster number for each answer."""
        same = self.comparison(question)
        firsts: list[str] = []
        known: dict[str, int] = {}
        found: list[int] = []
        for answer in answers:
            form = canonical_answer(answer)
            if form not in known:
                fitting = (number for number, first in enumerate(firsts) if same(first, answer))
                known[form] = next(fitting, len(firsts))
                if known[form] == len(firsts):
                    firsts.append(answer)
            found.append(known[form])
        return found


def matched(same: Sameness) -> Clusters:
    """Answers are one cluster when a function of both says so, e.g. a `SameMeaning`.

    A function with a method `about(question)` is told the question by it.
    """
    return Clusters({"clusters": "matched", "same": _name_of(same)}, partial(told_question, same))


def entailed(model: EntailmentModel) -> Clusters:
    """Answers are one cluster when each entails the other, with the question before both.

    Source: bidirectional entailment clustering, Kuhn et al. 2023, Algorithm 1.
    """

    def comparison(question: str) -> Sameness:
        asked = question.strip()

        def entail_each_other(first: str, second: str) -> bool:
            said = [f"{asked} {answer}".strip() for answer in (first, second)]
            # A judge that gives probabilities in the place of verdicts is read at one half.
            return all(model.entails(*pair) >= 0.5 for pair in (said, said[::-1]))

        return entail_each_other

    settings: Settings = {
        "clusters": "entailment",
        "judge": _name_of(model),
        "with_question": True,
    }
    return Clusters(settings, comparison)


def as_clusters(clusters: ClustersFrom) -> AnswerClusters:
    """Choose the clustering for what the user gave; a `SentenceMatcher` for None.

    Raises:
        InputError: it can neither cluster, judge nor be called.
    """
    if isinstance(clusters, AnswerClusters):
        return clusters
    if isinstance(clusters, EntailmentModel):
        return entailed(clusters)
    if clusters is None or callable(clusters):
        return matched(SentenceMatcher() if clusters is None else clusters)
    raise InputError(
        f"a {type(clusters).__name__} cannot cluster answers",
        where="clusters",
        hint="give an object with entails(premise, hypothesis), or a function of two answers",
    )


def _name_of(part: object) -> str:
    fingerprint = getattr(part, "fingerprint", None)
    if fingerprint is None:
        return str(getattr(part, "__qualname__", type(part).__qualname__))
    dump = getattr(fingerprint, "model_dump_json", None)
    return str(dump() if dump else fingerprint)


def semantic_entropy(
    cluster_ids: Sequence[int], loglikelihoods: Sequence[float] | None = None
) -> float:
    """Entropy −Σ P(c) log P(c), in nats, of what sampled answers mean.

    P(c) is the share of the samples in cluster c (discrete), or the sum of their likelihoods, by
    log-sum-exp and made to sum to 1. So it goes from 0 to the log of the number of clusters.

    Every sample counts, also where two are the same text.

    Args:
        cluster_ids: one per sample, at least one.
        loglikelihoods: natural-log likelihood of each sample, of the whole sequence or
            per token as the caller chooses; None for the discrete form.

    Raises:
        InputError: no samples, lists of different length, or likelihoods that are NaN,
            infinite upwards or all zero.

    Source: Farquhar et al. 2024.

    Example:
        >>> round(semantic_entropy([0, 0, 1, 1]), 4)
        0.6931
    """
    if not len(cluster_ids):
        raise InputError("holds no samples", where="cluster_ids")
    if loglikelihoods is None:
        shares = [count / len(cluster_ids) for count in Counter(cluster_ids).values()]
        entropy = -math.fsum(share * math.log(share) for share in shares)
    else:
        entropy = _weighted_entropy(cluster_ids, loglikelihoods)
    # Rounding must not make it negative, nor 0 a -0.
    return max(0.0, entropy) + 0.0


def _weighted_entropy(ids: Sequence[int], loglikelihoods: Sequence[float]) -> float:
    if len(loglikelihoods) != len(ids):
        raise InputError(
            f"has {len(loglikelihoods)} numbers for {len(ids)} samples", where="loglikelihoods"
        )
    if any(math.isnan(value) or value == math.inf for value in loglikelihoods):
        raise InputError("holds NaN or infinity", where="loglikelihoods")
    members: dict[int, list[float]] = {}
    for cluster, value in zip(ids, loglikelihoods, strict=True):
        members.setdefault(cluster, []).append(value)
    logs = [log_sum_exp(values) for values in members.values()]
    whole = log_sum_exp(logs)
    if whole == -math.inf:
        raise InputError("are all zero probabilities", where="loglikelihoods")
    parts = [log - whole for log in logs if log > -math.inf]
    return -math.fsum(math.exp(part) * part for part in parts)


Variant = Literal["discrete", "likelihood"]


class SemanticEntropy(ClosedBookEstimator):
    """1 − entropy / log n of the meanings of n sampled answers, in [0, 1].

    1 when all samples mean the same, 0 when no two do. Strong where answers can be worded
    in many ways and the clusters are good; it costs all n samples, since it cannot stop
    early. The value speaks of the question, not of one answer: a model that is sure of
    something else than its greedy answer counts as sure. A refusal has confidence 0.

    `discrete` takes each cluster's share of the samples. `likelihood` sums the samples'
    likelihoods exp(mean log p) in each cluster and makes the sums add up to 1.

    Args:
        language_model: what is asked; `likelihood` needs its `token_logprobs`.
        sampling: how the samples are drawn, at least 2.
        variant: as above.
        clusters: what tells which answers mean the same: an object with
            `entails(premise, hypothesis)`, a function of two answers such as a
            `SameMeaning`, any `AnswerClusters`, or None for a `SentenceMatcher`.
        prompt: closed-book prompt with a `{question}` slot.

    Raises:
        InputError: `language_model` is not one, or an argument is out of its range.

    Source: Kuhn et al. 2023; Farquhar et al. 2024, Detecting hallucinations in large
    language models using semantic entropy.
    """

    kind = "semantic_entropy"

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        sampling: Sampling | None = None,
        variant: Variant = "discrete",
        clusters: ClustersFrom = None,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(language_model, prompt)
        sampling = Sampling() if sampling is None else sampling
        if sampling.n < 2:
            raise InputError("must be at least 2", where="n")
        require_known(variant, get_args(Variant), "variant")
        self._n = sampling.n
        self._variant = variant
        self._clusters = as_clusters(clusters)
        # Rules are too quick to be worth a thread.
        self._by_rules = clusters is None
        self._temperature, self._seed = sampling.temperature, sampling.seed

    @property
    def cost(self) -> Cost:
        """The greedy answer and n samples."""
        return Cost(greedy_calls=1, sampled_calls=self._n)

    def _settings(self) -> Settings:
        return {
            **self._clusters.settings,
            "n": self._n,
            "variant": self._variant,
            "length_normalised": True if self._variant == "likelihood" else None,
            "answer": "greedy",
            "temperature": self._temperature,
            "prompt_sha256": self._prompt.sha256,
        }

    def _after(self, question: str, answer: str, greedy: Generation) -> Steps[Confidence]:
        # The very samples that `SampledConsistency` draws for the same seed.
        seed = None if self._seed is None else self._seed + 1
        prompt = self._prompt.fill(question=question)
        draw = Draw(prompt, self._n, self._temperature, seed)
        samples, _ = yield from draw_some(draw, least=2)
        texts = [sample.text.strip() for sample in samples]
        ids = [0] * len(texts)
        if len(set(texts)) > 1:
            cluster = partial(self._clusters.cluster, question, texts)
            ids = cluster() if self._by_rules else (yield cluster)
        drawn, value = len(samples), self._value(ids, samples)
        return Confidence(value, answer, drawn, calls=1 + drawn, partial=drawn < self._n)

    def _value(self, ids: list[int], samples: list[Generation]) -> float:
        likelihoods = None
        if self._variant == "likelihood":
            logs = [required_logprobs(sample) for sample in samples]
            likelihoods = [math.fsum(tokens) / len(tokens) for tokens in logs]
            if max(likelihoods) == -math.inf:
                raise LanguageModelError("every sampled answer has probability 0")
        entropy = semantic_entropy(ids, likelihoods)
        return min(1.0, max(0.0, 1.0 - entropy / math.log(len(samples))))
