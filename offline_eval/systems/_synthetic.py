"""Write questions on the topics of a knowledge base that it does not answer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from ...adapters.langchain import ChatModelLM
from ...guard.contracts import LanguageModel, PartialGenerationsError, TextEmbedder
from ...guard.errors import InputError, LanguageModelError
from ...guard.text import clean_text
from ..data.embedding import embed_all
from ..data.questions import QuestionRecord
from ..run.calls import OnStep
from .retrieval import TextModel, prompt_of_package, require_model, tagged, top_k_in_blocks

_LARGE = 10_000


def clusters_of(vectors: NDArray[np.float32], number: int | None, *, seed: int) -> list[list[int]]:
    """Row numbers by cluster (k-means), clusters in the order of their first rows.

    Args:
        vectors: of shape (items, dimensions), at least one item.
        number: of clusters, at least 1; by default the square root of half the items. There
            may be fewer: no more than different items.
        seed: of the first centres.

    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    wanted = max(1, round(float(np.sqrt(len(vectors) / 2)))) if number is None else number
    kind = MiniBatchKMeans if len(vectors) > _LARGE else KMeans
    with warnings.catch_warnings():
        # Fewer different items than clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = kind(min(wanted, len(vectors)), random_state=seed, n_init=3).fit_predict(vectors)
    groups: dict[int, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(row)
    return list(groups.values())


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """`total` dealt out by size: whole numbers, the largest remainders rounded up.

    Example:
        >>> shares([6, 3, 1], 4)
        [2, 1, 1]
    """
    exact = [total * size / sum(sizes) for size in sizes]
    dealt = [int(one) for one in exact]
    # Of equal remainders the smaller group, which has less, then the first.
    order = sorted(range(len(sizes)), key=lambda at: (dealt[at] - exact[at], sizes[at], at))
    for at in order[: total - sum(dealt)]:
        dealt[at] += 1
    return dealt


_TEMPERATURE = 0.7
_SHOWN = 15  # questions of a cluster in one prompt
_NEAREST = 5  # questions that a checking prompt shows
# Draws of two rounds never share a seed.
_SEEDS_PER_ROUND = 1000


class RejectReason(StrEnum):
    """Reasons why a written question was rejected.

    The knowledge base has it or its answer; it was written before; the language model
    says that it is answered; or the model's verdict could not be had.
    """

    KNOWN = "known"
    REPEATED = "repeated"
    ANSWERABLE = "answerable"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class SyntheticQuestion:
    """A question that the knowledge base does not answer.

    Attributes:
        question_id: `synthetic-<cluster>-<number>`.
        question: as the language model wrote it.
        cluster: of the knowledge base's questions, counted from 0.
        nearest: id of the question of the knowledge base that is nearest, by itself or by
            its answer.
        similarity: the cosine with that question or answer, in [-1, 1].
    """

    question_id: str
    question: str
    cluster: int
    nearest: str
    similarity: float


@dataclass(frozen=True, slots=True)
class RejectedQuestion:
    """A question that was written and rejected; see `SyntheticQuestion`."""

    question: str
    cluster: int
    reason: RejectReason
    nearest: str
    similarity: float


@dataclass(frozen=True, slots=True)
class SyntheticQuestions:
    """The questions written, the rejected ones, and the cost.

    Attributes:
        questions: taken, cluster by cluster.
        rejected: written and not taken, in the order in which they were written.
        failures: what failed, once per failed prompt: the type of the error, or `no
            question in the reply`.
        calls: of the language model.
        input_tokens: of those calls, None where not all were metered.
        output_tokens: likewise.
    """

    questions: tuple[SyntheticQuestion, ...]
    rejected: tuple[RejectedQuestion, ...]
    failures: tuple[str, ...]
    calls: int
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class SyntheticSettings:
    """Settings of the questions that are written.

    Attributes:
        count: questions wanted in all, at least 1; by default a fifth of the questions.
            Clusters get their share by size.
        clusters: at least 1; by default the square root of half the questions.
        novelty: bound on the cosine, above 0 and at most 1.
        check: let the model check.
        rounds: at least 1.
        seed: of clusters, of what is shown, and of draws where the model has seeds.

    Raises:
        InputError: a number is out of range.
    """

    count: int | None = None
    clusters: int | None = None
    novelty: float = 0.8
    check: bool = True
    rounds: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("count", "clusters", "rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"must be at least 1, not {value}", where=name)
        if not 0.0 < self.novelty <= 1.0:
            raise InputError(
                f"must be above 0 and at most 1, not {self.novelty:g}", where="novelty"
            )


def synthetic_questions(
    questions: Sequence[QuestionRecord],
    encoder: TextEmbedder,
    lm: TextModel | None,
    settings: SyntheticSettings | None = None,
    *,
    on_progress: OnStep | None = None,
) -> SyntheticQuestions:
    """Write questions on the same topics that the knowledge base does not answer.

    The questions are clustered by meaning; for each cluster the model is shown some of its
    questions and answers and writes new ones. A new one is taken if its cosine with every
    question, every answer and every new question taken before stays below `novelty`, and
    if the model, shown the five nearest questions with their answers, says that they do not
    answer it. What cannot be checked is not taken: a question in doubt would count against
    a system that answers it rightly. What is missing is asked for again, `rounds` times.

    Args:
        questions: of the knowledge base.
        encoder: texts → embeddings.
        lm: writes and checks. A chat model is asked with its own settings, side by side,
            failed calls again; a `ChatModelLM` of your own says how.
        settings: how many, how new, how they are checked.
        on_progress: called with (questions taken, questions wanted).

    Returns:
        Fewer questions than wanted where the rounds did not suffice.

    Raises:
        InputError: there is no language model or no question.
    """
    model = require_model(lm, where="synthetic questions", why="making up questions")
    if not questions:
        raise InputError("there are no questions", where="synthetic questions")
    settings = settings or SyntheticSettings()
    wanted = settings.count or max(1, round(len(questions) / 5))
    known = _Known(questions, encoder)
    groups = clusters_of(known.questions, settings.clusters, seed=settings.seed)
    writing = _Writing(known, _Asker(model, settings.seed), groups, wanted, settings)
    for number in range(settings.rounds):
        if not writing.missing():
            break
        writing.write(number)
        if on_progress is not None:
            on_progress(len(writing.taken), wanted)
    return writing.result()


class _Known:
    """The knowledge base's questions and answers, embedded."""

    def __init__(self, records: Sequence[QuestionRecord], encoder: TextEmbedder) -> None:
        self.records, self.encoder = records, encoder
        self.questions = embed_all([record.question for record in records], encoder)
        answers = embed_all([record.answer for record in records], encoder)
        self._both = np.concatenate([self.questions, answers])

    def nearest(self, vectors: NDArray[np.float32], k: int) -> list[list[tuple[int, float]]]:
        """Per vector the records nearest by question or answer, with the larger cosine."""
        rows, cosines = top_k_in_blocks(vectors, self._both, 2 * k)
        found = []
        for some, values in zip(rows, cosines, strict=True):
            best: dict[int, float] = {}
            for row, value in zip(some, values, strict=True):
                best.setdefault(int(row) % len(self.records), float(value))
            found.append(list(best.items())[:k])
        return found

    def shown(self, records: Sequence[int]) -> str:
        """Questions with their answers, as a prompt shows them."""
        return "\n\n".join(
            f"Q: {self.records[row].question}\nA: {self.records[row].answer}" for row in records
        )


class _Asker:
    """Prompts to replies, with what failed and what it cost."""

    def __init__(self, model: TextModel, seed: int) -> None:
        self._lm: LanguageModel = (
            # With the model's own settings: not every model takes a temperature.
            ChatModelLM(model, greedy_options={}, sample_options={})
            if isinstance(model, Runnable)
            else model
        )
        self._before = self._lm.usage if isinstance(self._lm, ChatModelLM) else None
        self._seed, self._prompts = seed, 0
        self.failures: list[str] = []

    def ask(self, prompts: Sequence[str], *, number: int, temperature: float) -> list[str | None]:
        """One reply per prompt, None where it failed."""
        if not prompts:
            return []
        self._prompts += len(prompts)
        try:
            rows = self._lm.generate(
                prompts, temperature=temperature, seed=self._seed + _SEEDS_PER_ROUND * number
            )
        except PartialGenerationsError as error:
            rows = [list(row) for row in error.generations]
            self.failures += [type(one).__name__ for one in error.errors if one is not None]
        except LanguageModelError as error:
            self.failures += [type(error).__name__] * len(prompts)
            return [None] * len(prompts)
        return [clean_text(row[0].text) if row else None for row in rows]

    def cost(self) -> tuple[int, int | None, int | None]:
        """Calls, input and output tokens so far."""
        if self._before is None or not isinstance(self._lm, ChatModelLM):
            return self._prompts, None, None
        now, before = self._lm.usage, self._before
        calls = now.calls - before.calls
        if now.metered_calls - before.metered_calls < calls:
            return calls, None, None
        return (
            calls,
            now.input_tokens - before.input_tokens,
            now.output_tokens - before.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Draft:
    """A question as written, with its place among what is known."""

    question: str
    cluster: int
    vector: NDArray[np.float32]
    near: list[tuple[int, float]]


class _Writing:
    """Drafts, round by round, until each cluster has its share."""

    def __init__(
        self,
        known: _Known,
        asker: _Asker,
        groups: Sequence[Sequence[int]],
        wanted: int,
        settings: SyntheticSettings,
    ) -> None:
        self._known, self._asker, self._groups = known, asker, groups
        self._novelty, self._check = settings.novelty, settings.check
        self._shares = shares([len(group) for group in groups], wanted)
        self._random = np.random.default_rng(settings.seed)
        self._write, self._judge = (
            prompt_of_package("synthetic_questions"),
            prompt_of_package("answerable"),
        )
        self.taken: list[_Draft] = []
        self._rejected: list[RejectedQuestion] = []

    def missing(self) -> dict[int, int]:
        """How many questions each cluster still lacks."""
        return {
            cluster: lacking
            for cluster, share in enumerate(self._shares)
            if (lacking := share - sum(draft.cluster == cluster for draft in self.taken)) > 0
        }

    def write(self, number: int) -> None:
        """One round: ask, sort out, check, take."""
        lacking = self.missing()
        prompts = [self._prompt(cluster, count) for cluster, count in lacking.items()]
        replies = self._asker.ask(prompts, number=number, temperature=_TEMPERATURE)
        drafts: list[_Draft] = []
        for (cluster, count), reply in zip(lacking.items(), replies, strict=True):
            if reply is not None:
                drafts += self._drafts(reply, cluster, count)
        new = self._new_ones(drafts)
        for draft, verdict in zip(new, self._verdicts(new, number), strict=True):
            if verdict is None:
                self.taken.append(draft)
            else:
                self._reject(draft, verdict)

    def result(self) -> SyntheticQuestions:
        """What was taken so far, and the rest."""
        found = []
        for cluster in range(len(self._groups)):
            drafts = [draft for draft in self.taken if draft.cluster == cluster]
            for number, draft in enumerate(drafts):
                row, cosine = draft.near[0]
                name = f"synthetic-{cluster}-{number}"
                nearest = self._known.records[row].question_id
                found.append(SyntheticQuestion(name, draft.question, cluster, nearest, cosine))
        calls, read, written = self._asker.cost()
        return SyntheticQuestions(
            tuple(found),
            tuple(self._rejected),
            tuple(self._asker.failures),
            calls,
            read,
            written,
        )

    def _prompt(self, cluster: int, count: int) -> str:
        group = self._groups[cluster]
        some = self._random.permutation(len(group))[:_SHOWN]
        known = self._known.shown([group[at] for at in sorted(some)])
        before = [draft.question for draft in self.taken if draft.cluster == cluster]
        before += [one.question for one in self._rejected if one.cluster == cluster]
        if before:
            known += "\n\nAlready written:\n" + "\n".join(before[-_SHOWN:])
        return self._write.fill(number=str(count), known=known)

    def _drafts(self, reply: str, cluster: int, count: int) -> list[_Draft]:
        # More than asked for is welcome within bounds: some will not do.
        texts = tagged(reply, "question")[: 2 * count]
        if not texts:
            self._asker.failures.append("no question in the reply")
            return []
        vectors = embed_all(texts, self._known.encoder)
        near = self._known.nearest(vectors, _NEAREST)
        return [
            _Draft(text, cluster, vector, found)
            for text, vector, found in zip(texts, vectors, near, strict=True)
        ]

    def _new_ones(self, drafts: Sequence[_Draft]) -> list[_Draft]:
        """The drafts that say nothing known, no more than are missing."""
        lacking = self.missing()
        new: list[_Draft] = []
        for draft in drafts:
            if draft.near[0][1] >= self._novelty:
                self._reject(draft, RejectReason.KNOWN)
            elif any(
                float(draft.vector @ other.vector) >= self._novelty for other in self.taken + new
            ):
                self._reject(draft, RejectReason.REPEATED)
            elif lacking.get(draft.cluster, 0) > 0:
                lacking[draft.cluster] -= 1
                new.append(draft)
        return new

    def _verdicts(self, drafts: Sequence[_Draft], number: int) -> list[RejectReason | None]:
        if not self._check:
            return [None] * len(drafts)
        prompts = [
            self._judge.fill(
                question=draft.question, known=self._known.shown([row for row, _ in draft.near])
            )
            for draft in drafts
        ]
        return [_verdict(reply) for reply in self._asker.ask(prompts, number=number, temperature=0)]

    def _reject(self, draft: _Draft, reason: RejectReason) -> None:
        row, cosine = draft.near[0]
        nearest = self._known.records[row].question_id
        self._rejected.append(
            RejectedQuestion(draft.question, draft.cluster, reason, nearest, cosine)
        )


def _verdict(reply: str | None) -> RejectReason | None:
    """None: the question is new. The last tag counts."""
    said = tagged(reply or "", "answerable")
    last = said[-1].casefold().strip(".") if said else ""
    if last == "no":
        return None
    return RejectReason.ANSWERABLE if last == "yes" else RejectReason.UNCHECKED
