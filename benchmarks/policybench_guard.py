"""Asking a guard about logged contexts: with the source left out, and with it in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from policybench_logs import Document

from knowgate.guard import Fingerprint, Guard, GuardOptions, Policy, RelevanceScorer, Route
from knowgate.guard.contracts import SetScore
from knowgate.guard.engine import BiEncoderScorer
from knowgate.offline_eval.data.embedding import Encoder

TOP = 5
# A prompt of more passages than this is no retrieval: it holds the whole knowledge base.
LONG = 20


class Remembering:
    """A scorer that is asked about a question and its passages once, however often they come.

    Several run files hold the same contexts, and several policies judge the same run files.
    """

    def __init__(self, scorer: RelevanceScorer) -> None:
        self._scorer: Any = scorer
        self._fingerprint = scorer.fingerprint
        self._pairs: dict[tuple[str, str], float] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the scorer that is asked."""
        return self._fingerprint

    def supports(self, question: str) -> bool:
        """Whether the scorer takes the question's language; one that does not say takes all."""
        asked = getattr(self._scorer, "supports", None)
        return asked is None or bool(asked(question))

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Scores of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scores of shape (len(pairs),)."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._pairs]
        if new:
            scores = np.asarray(self._scorer.score_pairs(new), dtype=np.float64)
            self._pairs.update(zip(new, scores.tolist(), strict=True))
        return np.asarray([self._pairs[pair] for pair in pairs], dtype=np.float64)


class RememberingSets(Remembering):
    """The same for a scorer that judges passages together."""

    def __init__(self, scorer: RelevanceScorer) -> None:
        super().__init__(scorer)
        self._sets: dict[tuple[str, tuple[str, ...]], SetScore] = {}

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """Scores of the passages and their joint value."""
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `score_set`, for each question with its passages."""
        asked = [(q, tuple(texts)) for q, texts in zip(questions, passages, strict=True)]
        new = [one for one in dict.fromkeys(asked) if one not in self._sets]
        if new:
            found = self._scorer.score_sets([q for q, _ in new], [list(texts) for _, texts in new])
            self._sets.update(zip(new, found, strict=True))
        return [self._sets[one] for one in asked]


def remembering(scorer: RelevanceScorer) -> Remembering:
    """`scorer` behind a memory, with `score_sets` only if it has that itself."""
    sets = all(callable(getattr(scorer, name, None)) for name in ("score_set", "score_sets"))
    return RememberingSets(scorer) if sets else Remembering(scorer)


@dataclass(frozen=True)
class Judges:
    """What a benchmark asks.

    Attributes:
        scorer: of the policy.
        encoder: of the retriever, as in `knowgate measure`.
    """

    scorer: Remembering
    encoder: Encoder


def judges_of(scorer: RelevanceScorer) -> Judges:
    """The scorer behind a memory, and the embedded retriever."""
    encoder = scorer if isinstance(scorer, BiEncoderScorer) else BiEncoderScorer()
    return Judges(remembering(scorer), encoder)


@dataclass(frozen=True)
class Context:
    """What the guard is asked about.

    Attributes:
        question_id: of the question.
        ids: passages of the context.
    """

    question_id: str
    ids: tuple[str, ...]


class Asked:
    """One guard over one document.

    Args:
        policy: which contexts to follow. Logs hold no confidence and no conflict, so that
            it can neither answer from memory nor look for a conflict here.
        judges: scorer and retriever.
        document: questions and passages.
        top: passages that are retrieved.
        shorten: put contexts of more than `LONG` passages to the guard as their `top`
            nearest ones; False for all of them.

    Raises:
        FingerprintMismatchError: the policy was calibrated on another scorer.
    """

    def __init__(
        self,
        policy: Policy,
        judges: Judges,
        document: Document,
        *,
        top: int = TOP,
        shorten: bool = True,
    ) -> None:
        self._guard = Guard(
            by_relevance_alone(policy),
            scorer=judges.scorer,
            options=GuardOptions(deadlines={"relevance": None}),
            metrics=False,
        )
        self._document, self._top, self._shorten = document, top, shorten
        self._ids = list(document.knowledge_base.passages)
        texts = list(document.knowledge_base.passages.values())
        asked = [one.question for one in document.questions.values()]
        cosines = judges.encoder.embed(asked) @ judges.encoder.embed(texts).T
        self._near = dict(zip(document.questions, np.asarray(cosines), strict=True))
        self._place = {name: at for at, name in enumerate(self._ids)}

    def own(self, question_id: str) -> str:
        """Id of the passage that answers a question."""
        return self._document.knowledge_base.passage_of[question_id]

    def retrieved(self, question_id: str, *, left_out: bool) -> Context:
        """The passages nearest to the question, its own among them or left out."""
        own = self.own(question_id)
        ids = tuple(one for one in self._ids if not (left_out and one == own))
        return Context(question_id, self._nearest(question_id, ids))

    def put(self, question_id: str, ids: Sequence[str]) -> Context:
        """A context as it is put to the guard: distinct passages, long ones shortened."""
        base = self._document.knowledge_base
        distinct = tuple(dict.fromkeys(base.passage_of[one] for one in ids))
        if self._shorten and len(distinct) > LONG:
            distinct = self._nearest(question_id, distinct)
        return Context(question_id, distinct)

    def holds_source(self, context: Context) -> bool:
        """Whether the question's own passage is in it."""
        return self.own(context.question_id) in context.ids

    def follows(self, contexts: Sequence[Context]) -> list[bool]:
        """Whether the guard lets the model reply on each context."""
        texts = self._document.knowledge_base.passages
        decisions = self._guard.decide_batch(
            [self._document.questions[one.question_id].question for one in contexts],
            [[texts[name] for name in one.ids] for one in contexts],
        )
        return [decision.route is Route.FOLLOW_CONTEXT for decision in decisions]

    def _nearest(self, question_id: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        cosines = self._near[question_id]
        return tuple(sorted(ids, key=lambda one: -float(cosines[self._place[one]]))[: self._top])


def by_relevance_alone(policy: Policy) -> Policy:
    """`policy` without what no log holds: answers from memory and conflicts.

    A question whose confidence cannot be measured is abstained from, as a guard does.
    """
    kept = tuple(route for route in policy.allowed_routes if route is not Route.ANSWER)
    return policy.model_copy(update={"allowed_routes": kept, "check_conflict": False})
