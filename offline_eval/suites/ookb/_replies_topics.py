"""What questions are about: as the input says, by source, or found by embedding."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ....guard.errors import DeviceError, MissingDependencyError, ModelFolderError
from ...report.text import one_line
from ...run import Question
from ._replies import JudgedReply, ReplyShape, distinct, grouped, shape_of

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
How = Literal["topic", "source", "clusters", "word_clusters"]

# Fewer questions than this say nothing by cluster.
_FEWEST = 20
_MAX_CLUSTERS = 10
# Beyond that the embedded model would take minutes for a rough map.
_MAX_EMBEDDED = 2000
_SEED = 0
_KEYWORDS = 3
_WORD_DIMENSIONS = 64
_LONGEST = 60
_OTHERS = "(none given)"
_WORDS = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Topic:
    """Outcomes of the questions on one topic, all systems together.

    Attributes:
        topic: its name; keywords where it was found by embedding.
        questions: on it.
        replies: to them, counted.
    """

    topic: str
    questions: int
    replies: ReplyShape


@dataclass(frozen=True, slots=True)
class Topics:
    """The breakdown, and where the topics come from; empty where there are none."""

    how: How
    topics: tuple[Topic, ...]


def topics_of(
    questions: Mapping[str, Question],
    replies: Sequence[JudgedReply],
    *,
    embed: Embed | None = None,
) -> Topics:
    """Group the replies by topic, those with the most questions first.

    Args:
        questions: of the run, by id.
        replies: without errors.
        embed: unit-length embeddings for the clusters; None: the embedded model.
    """
    how, names = _named(list(questions.values()), embed)
    members = grouped(
        (reply for reply in replies if reply.case.question_id in names),
        lambda reply: names[reply.case.question_id],
    )
    found = [
        Topic(name, len({reply.case.question_id for reply in own}), shape_of(own))
        for name, own in zip(distinct(list(members)), members.values(), strict=True)
    ]
    if len(found) < 2:
        return Topics(how, ())
    return Topics(how, tuple(sorted(found, key=lambda topic: (-topic.questions, topic.topic))))


def _named(questions: Sequence[Question], embed: Embed | None) -> tuple[How, dict[str, str]]:
    """A topic's name per question id."""
    topics = {question.question_id: one_line(question.topic or "") for question in questions}
    sources = {question.question_id: one_line(question.source or "") for question in questions}
    if len({question.topic for question in questions if question.topic}) > 1:
        return "topic", {name: topic or _OTHERS for name, topic in topics.items()}
    # A source for each question is no topic.
    if 1 < len({one.source for one in questions if one.source}) <= len(questions) / 2:
        return "source", {name: source or _OTHERS for name, source in sources.items()}
    if len(questions) < _FEWEST:
        return "clusters", {}
    return _clustered(questions, embed)


def _clustered(questions: Sequence[Question], embed: Embed | None) -> tuple[How, dict[str, str]]:
    from sklearn.cluster import KMeans

    texts = [one_line(question.question) for question in questions]
    wanted = min(_MAX_CLUSTERS, max(2, round((len(questions) / 2) ** 0.5)))
    how, vectors = _vectors(texts, embed)
    if len(np.unique(vectors, axis=0)) < wanted:
        return how, {}
    means = KMeans(wanted, n_init=10, random_state=_SEED).fit(vectors)
    owner = [int(cluster) for cluster in means.labels_]
    names = _keywords(texts, owner)
    return how, {
        question.question_id: names[cluster]
        for question, cluster in zip(questions, owner, strict=True)
    }


def _vectors(texts: Sequence[str], embed: Embed | None) -> tuple[How, NDArray[np.float64]]:
    if embed is None and len(texts) > _MAX_EMBEDDED:
        return "word_clusters", _word_vectors(texts)
    if embed is None:
        try:
            from ....guard.engine import BiEncoderScorer

            # On the CPU, so that another machine finds the same clusters.
            embed = BiEncoderScorer(device="cpu").embed
        except (ModelFolderError, MissingDependencyError, DeviceError):
            return "word_clusters", _word_vectors(texts)
    return "clusters", np.asarray(embed(texts), dtype=np.float64)


def _word_vectors(texts: Sequence[str]) -> NDArray[np.float64]:
    """Without the embedded model: weighted words in few dimensions, unit length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    words = TfidfVectorizer(sublinear_tf=True, analyzer=_WORDS.findall).fit_transform(texts)
    if words.shape[1] <= _WORD_DIMENSIONS:
        return np.asarray(words.toarray())
    reduced = TruncatedSVD(_WORD_DIMENSIONS, random_state=_SEED).fit_transform(words)
    return np.asarray(normalize(reduced))


def _keywords(texts: Sequence[str], owner: Sequence[int]) -> dict[int, str]:
    """Per cluster the words that set its texts apart, the heaviest first."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

    clusters = sorted(set(owner))
    together = [
        " ".join(text for text, own in zip(texts, owner, strict=True) if own == cluster)
        for cluster in clusters
    ]
    weights = TfidfVectorizer(
        analyzer=lambda text: [
            word for word in _LETTERS.findall(text.casefold()) if word not in ENGLISH_STOP_WORDS
        ]
    )
    try:
        table = weights.fit_transform(together).toarray()
    except ValueError:  # nothing but digits and stop words
        return {cluster: f"cluster {cluster + 1}" for cluster in clusters}
    words = weights.get_feature_names_out()
    found: dict[int, str] = {}
    for cluster, row in zip(clusters, table, strict=True):
        best = sorted(range(len(words)), key=lambda index: (-row[index], words[index]))
        chosen = [str(words[index]) for index in best[:_KEYWORDS] if row[index] > 0]
        name = one_line(", ".join(chosen), _LONGEST) or f"cluster {cluster + 1}"
        found[cluster] = name if name not in found.values() else f"{name} ({cluster + 1})"
    return found
