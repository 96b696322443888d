"""Write questions on the topics of a knowledge base that it does not answer."""

from __future__ import annotations

import warnings
from collections import Counter
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
from ..run.grouping import grouped
from .models import TextModel
from .plan import prompt_of_package
from .retrieval import require_model, tagged, top_k

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
    return list(grouped(range(len(vectors)), lambda row: int(labels[row])).values())


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """`total` dealt out by size, in whole numbers that add up to it.

    Example:
        >>> shares([6, 3, 1], 5)
        [3, 2, 0]
    """
    ends = np.floor(np.cumsum(sizes) * total / sum(sizes) + 0.5)
    return [int(one) for one in np.diff(ends, prepend=0)]


_TEMPERATURE = 0.7
# Questions of a cluster in one prompt.
_SHOWN = 15
# Questions that a checking prompt shows.
_NEAREST = 5
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
    sizes = list(map(len, writing.groups))
    wanted = shares(sizes, count or max(1, round(len(records) / 5)))
    for number in range(_ROUNDS):
        taken = Counter(draft.cluster for draft in writing.taken)
        missing = {at: n - taken[at] for at, n in enumerate(wanted) if n > taken[at]}
        if missing:
            writing.round(number, missing)
    by_cluster = grouped(writing.taken, lambda draft: draft.cluster)
    return {
        f"synthetic-{cluster}-{place}": draft.question
        for cluster, drafts in sorted(by_cluster.items())
        for place, draft in enumerate(drafts)
    }


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
        groups: the rows of the questions of each cluster.
        taken: drafts that will do.
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
        self.groups = clusters_of(asked, clusters, seed=seed)
        self._random = np.random.default_rng(seed)
        self.taken: list[_Draft] = []
        self._written: list[_Draft] = []

    def round(self, number: int, missing: Mapping[int, int]) -> None:
        """Ask for what is missing, by cluster, and take what will do."""
        prompts = [self._prompt(cluster, count) for cluster, count in missing.items()]
        replies = self._ask(prompts, number, _TEMPERATURE)
        new: list[_Draft] = []
        for (cluster, count), reply in zip(missing.items(), replies, strict=True):
            # More than asked for is welcome within bounds: some will not do.
            drafts = self._drafts(tagged(reply, "question")[: 2 * count], cluster)
            self._written += drafts
            before = len(new)
            for draft in drafts:
                others = [float(draft.vector @ one.vector) for one in (*self.taken, *new)]
                if max([draft.cosine, *others]) < _NOVELTY and len(new) < before + count:
                    new.append(draft)
        prompt = prompt_of_package("answerable")
        checks = [prompt.fill(question=one.question, known=self._shown(one.near)) for one in new]
        verdicts = self._ask(checks, number, 0)
        self.taken += [one for one, said in zip(new, verdicts, strict=True) if _is_no(said)]

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
        group = self.groups[cluster]
        some = self._random.permutation(len(group))[:_SHOWN]
        known = self._shown([group[at] for at in sorted(some)])
        before = [draft.question for draft in self._written if draft.cluster == cluster]
        if before:
            known += "\n\nAlready written:\n" + "\n".join(before[-_SHOWN:])
        return prompt_of_package("synthetic_questions").fill(number=str(count), known=known)

    def _drafts(self, texts: Sequence[str], cluster: int) -> list[_Draft]:
        if not texts:
            return []
        vectors = embed_all(texts, self._encoder)
        # By question or by answer: of each record both.
        rows, cosines = top_k(vectors, self._known, 2 * _NEAREST)
        found = []
        for text, vector, some, values in zip(texts, vectors, rows, cosines, strict=True):
            near = dict.fromkeys(int(row) % len(self._records) for row in some)
            nearest = list(near)[:_NEAREST]
            found.append(_Draft(text, cluster, vector, nearest, float(values[0])))
        return found


def _is_no(reply: str) -> bool:
    """Whether a verdict says no; the last tag counts."""
    return [said.casefold().strip(".") for said in tagged(reply, "answerable")[-1:]] == ["no"]
