"""Cluster answers that mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from ...contracts import (
    EntailmentModel,
    TextEmbedder,
)
from ...errors import InputError
from ...matching import SentenceMatcher, canonical_answer

Settings = Mapping[str, str | int | float | bool | None]


@runtime_checkable
class AnswerClusters(Protocol):
    """Clusters answers by meaning."""

    @property
    def settings(self) -> Settings:
        """What fingerprints record."""
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
        """Its name only."""
        return MappingProxyType({"clusters": "equal"})

    def cluster(self, question: str, answers: Sequence[str]) -> list[int]:
        """Cluster numbers; the question is not used."""
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
        """Cluster numbers by cosine; the question is not used."""
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
    """Choose the clustering for what the user gave; a `SentenceMatcher` for None.

    Raises:
        InputError: it can neither cluster, judge, embed nor be called.
    """
    if clusters is None:
        return MatchedAnswers(SentenceMatcher())
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
