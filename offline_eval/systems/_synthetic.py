"""Write questions on the topics of a knowledge base that it does not answer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from ...adapters.langchain import ChatModelLM
from ...guard.contracts import LanguageModel, TextEmbedder
from ...guard.errors import InputError
from ...guard.text import clean_text
from ..data.embedding import embed_all
from ..data.questions import QuestionRecord
from ..run.calls import generate_each
from .models import TextModel
from .retrieval import prompt_of_package, require_model, tagged, top_k

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
# Cosine from which two questions say the same.
_NOVELTY = 0.8
_ROUNDS = 3
# Draws of two rounds never share a seed.
_SEEDS_PER_ROUND = 1000


def synthetic_questions(
    records: Sequence[QuestionRecord],
    encoder: TextEmbedder,
    lm: TextModel | None,
    *,
    count: int | None = None,
    clusters: int | None = None,
    seed: int = 0,
) -> dict[str, str]:
    """Write questions on the same topics that the knowledge base does not answer.

    The questions are clustered by meaning; for each cluster the model is shown some of its
    questions and answers and writes new ones. A new one is taken if its cosine with every
    question, every answer and every new question taken before stays below 0.8, and
    if the model, shown the five nearest questions with their answers, says that they do not
    answer it. What cannot be checked is not taken: a question in doubt would count against
    a system that answers it rightly. What is missing is asked for again, three times.

    Args:
        records: of the knowledge base.
        encoder: texts → embeddings.
        lm: writes and checks. A chat model is asked with its own settings, side by side,
            failed calls again; a `ChatModelLM` of your own says how.
        count: questions wanted in all, at least 1; by default a fifth of the questions.
            Clusters get their share by size.
        clusters: at least 1; by default the square root of half the questions.
        seed: of clusters, of what is shown, and of draws where the model has seeds.

    Returns:
        Questions by id, cluster by cluster; fewer than wanted where the rounds did not suffice.

    Raises:
        InputError: there is no language model or no question.
    """
    model = require_model(lm, where="synthetic questions", why="making up questions")
    if not records:
        raise InputError("there are no questions", where="synthetic questions")
    writing = _Writing(records, encoder, model, clusters, seed)
    missing = dict(enumerate(shares(writing.sizes, count or max(1, round(len(records) / 5)))))
    for number in range(_ROUNDS):
        missing = {cluster: lacking for cluster, lacking in missing.items() if lacking}
        for draft in writing.round(number, missing) if missing else ():
            missing[draft.cluster] -= 1
    numbers = dict.fromkeys(range(len(writing.sizes)), 0)
    found = {}
    for draft in sorted(writing.taken, key=lambda one: one.cluster):
        found[f"synthetic-{draft.cluster}-{numbers[draft.cluster]}"] = draft.question
        numbers[draft.cluster] += 1
    return found


class _Draft(NamedTuple):
    """A question as written, with the rows of what is known nearest to it and its cosine."""

    question: str
    cluster: int
    vector: NDArray[np.float32]
    near: list[int]
    cosine: float


class _Writing:
    """Drafts of new questions, round by round.

    Attributes:
        taken: drafts that will do.
        sizes: of the clusters.
    """

    def __init__(
        self,
        records: Sequence[QuestionRecord],
        encoder: TextEmbedder,
        model: TextModel,
        clusters: int | None,
        seed: int,
    ) -> None:
        self._records, self._encoder, self._seed = records, encoder, seed
        self._lm: LanguageModel = (
            # With the model's own settings: not every model takes a temperature.
            ChatModelLM(model, greedy_options={}, sample_options={})
            if isinstance(model, Runnable)
            else model
        )
        asked = embed_all([record.question for record in records], encoder)
        answers = embed_all([record.answer for record in records], encoder)
        self._known = np.concatenate([asked, answers])
        self._groups = clusters_of(asked, clusters, seed=seed)
        self.sizes = [len(group) for group in self._groups]
        self._random = np.random.default_rng(seed)
        self._write = prompt_of_package("synthetic_questions")
        self._judge = prompt_of_package("answerable")
        self.taken: list[_Draft] = []
        self._rejected: list[_Draft] = []

    def round(self, number: int, missing: Mapping[int, int]) -> list[_Draft]:
        """Ask for what is missing, by cluster; return what was taken of it."""
        prompts = [self._prompt(cluster, count) for cluster, count in missing.items()]
        replies = self._ask(prompts, number, _TEMPERATURE)
        drafts = [
            draft
            for (cluster, count), reply in zip(missing.items(), replies, strict=True)
            # More than asked for is welcome within bounds: some will not do.
            for draft in self._drafts(tagged(reply, "question")[: 2 * count], cluster)
        ]
        new: list[_Draft] = []
        room = dict(missing)
        for draft in drafts:
            others = [other.vector for other in self.taken + new]
            if max([draft.cosine, *(float(draft.vector @ one) for one in others)]) >= _NOVELTY:
                self._rejected.append(draft)
            elif room[draft.cluster] > 0:
                room[draft.cluster] -= 1
                new.append(draft)
        checks = [
            self._judge.fill(question=draft.question, known=self._shown(draft.near))
            for draft in new
        ]
        verdicts = self._ask(checks, number, 0)
        answered = [_is_unanswerable(verdict) for verdict in verdicts]
        taken = [draft for draft, ok in zip(new, answered, strict=True) if ok]
        self._rejected += [draft for draft, ok in zip(new, answered, strict=True) if not ok]
        self.taken += taken
        return taken

    def _ask(self, prompts: Sequence[str], number: int, temperature: float) -> list[str]:
        """One reply per prompt, empty where it failed."""
        seed = self._seed + _SEEDS_PER_ROUND * number
        rows = generate_each(self._lm, prompts, temperature=temperature, seed=seed)
        return [clean_text(row[0].text) if isinstance(row, list) else "" for row in rows]

    def _shown(self, rows: Iterable[int]) -> str:
        """Questions with their answers, as a prompt shows them."""
        some = [self._records[row] for row in rows]
        return "\n\n".join(f"Q: {one.question}\nA: {one.answer}" for one in some)

    def _prompt(self, cluster: int, count: int) -> str:
        group = self._groups[cluster]
        some = self._random.permutation(len(group))[:_SHOWN]
        known = self._shown([group[at] for at in sorted(some)])
        written = (*self.taken, *self._rejected)
        before = [draft.question for draft in written if draft.cluster == cluster]
        if before:
            known += "\n\nAlready written:\n" + "\n".join(before[-_SHOWN:])
        return self._write.fill(number=str(count), known=known)

    def _drafts(self, texts: Sequence[str], cluster: int) -> list[_Draft]:
        if not texts:
            return []
        vectors = embed_all(texts, self._encoder)
        # By question or by answer: of each record both.
        rows, cosines = top_k(vectors, self._known, 2 * _NEAREST)
        return [
            _Draft(
                text,
                cluster,
                vector,
                list(dict.fromkeys(int(row) % len(self._records) for row in some))[:_NEAREST],
                float(values[0]),
            )
            for text, vector, some, values in zip(texts, vectors, rows, cosines, strict=True)
        ]


def _is_unanswerable(reply: str) -> bool:
    """Whether a verdict says no; the last tag counts."""
    return [said.casefold().strip(".") for said in tagged(reply, "answerable")[-1:]] == ["no"]
