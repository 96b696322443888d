"""Putting questions to a model, batch by batch; a failure costs one question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import Generation, LanguageModel, ScoringLanguageModel
from ....guard.errors import InputError, KnowgateError, LanguageModelError
from ...data.graph import ChoiceItem, UaqItem
from ...judging import MultipleChoice
from ...run import each_or_error, generate_each
from ...systems import LoggedReplies
from .._parts import MODEL_SYSTEM
from ._plan import Planned, UaqRow, row_id
from ._prompting import LETTERS, Asked, Prompter, clue_facts
from ._replay import find_reply

# Questions compared at one time: 64 × 12,000 scores are 6 MB.
_AT_ONCE = 64


class FactRetriever:
    """The nearest facts by TF-IDF over letter sequences: any language, no model, the same always.

    Args:
        items: whose facts make up the collection, each language one of its own.
        k: facts per question.
    """

    def __init__(self, items: Iterable[UaqItem], k: int) -> None:
        self._k = k
        facts: dict[str, dict[str, None]] = {}
        for item in items:
            facts.setdefault(item.language, {}).update(dict.fromkeys(clue_facts(item)))
        self._facts = {language: list(found) for language, found in facts.items() if found}
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizers = {}
        self._matrices = {}
        for language, found in self._facts.items():
            vectorizer = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32
            )
            # Facts as columns: a row of the product is then one question's scores.
            self._matrices[language] = vectorizer.fit_transform(found).T.tocsr()
            self._vectorizers[language] = vectorizer

    def retrieve(self, items: Sequence[UaqItem]) -> list[list[str]]:
        """The facts for each question, nearest first; ties in the order of the collection."""
        found: list[list[str]] = [[] for _ in items]
        for language in self._facts:
            places = [at for at, item in enumerate(items) if item.language == language]
            for start in range(0, len(places), _AT_ONCE):
                some = places[start : start + _AT_ONCE]
                for at, facts in zip(
                    some, self._nearest(language, [items[at] for at in some]), strict=True
                ):
                    found[at] = facts
        return found

    def _nearest(self, language: str, items: Sequence[UaqItem]) -> list[list[str]]:
        facts = self._facts[language]
        queries = self._vectorizers[language].transform([item.question for item in items])
        scores = (queries @ self._matrices[language]).toarray()
        return [[facts[at] for at in _best(row, self._k)] for row in scores]


def _best(scores: NDArray[np.float32], k: int) -> list[int]:
    """Places of the `k` highest, highest first, equal ones in order."""
    if k < len(scores):
        # All that are as high as the last one wanted: which of equals comes first is not
        # left to the partition.
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    order = np.argsort(-scores[places], kind="stable")[:k]
    return [int(at) for at in places[order]]


_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class Answerer(Protocol):
    """What gives rows to questions."""

    def answer(self, batch: Sequence[Planned]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        ...


class ModelAnswerer:
    """A language model, asked as the suite wants it.

    Args:
        lm: one that scores options is not asked for letters.
        prompter: makes the prompts.
        retriever: for the form `retrieved`; None where that is not asked.
        choose_by: see `UaqSettings`.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompter: Prompter,
        retriever: FactRetriever | None,
        *,
        choose_by: Literal["letter", "text"] = "letter",
    ) -> None:
        self._lm, self._prompter, self._retriever = lm, prompter, retriever
        self._choose_by = choose_by

    def answer(self, batch: Sequence[Planned]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        form = batch[0].form
        if form == "choice":
            return self._choose([p.item for p in batch if isinstance(p.item, ChoiceItem)])
        items = [p.item for p in batch if isinstance(p.item, UaqItem)]
        asked = [self._asked(form, item) for item in items] if form != "retrieved" else []
        if form == "retrieved":
            asked = [
                self._prompter.with_facts(item, facts)
                for item, facts in zip(items, self._retrieved(items), strict=True)
            ]
        found = generate_each(self._lm, [one.prompt for one in asked])
        return [
            _reply_row(form, item, one.shots, reply)
            for item, one, reply in zip(items, asked, found, strict=True)
        ]

    def _asked(self, form: str, item: UaqItem) -> Asked:
        if form == "question":
            return self._prompter.question(item)
        if form == "clue":
            return self._prompter.with_clue(item)
        return self._prompter.with_facts(item, clue_facts(item))

    def _retrieved(self, items: Sequence[UaqItem]) -> list[list[str]]:
        if self._retriever is None:
            raise InputError("facts are to be retrieved and there is no retriever")
        return self._retriever.retrieve(items)

    def _choose(self, items: Sequence[ChoiceItem]) -> list[UaqRow]:
        prompts = [self._prompter.choice(item).prompt for item in items]
        if not isinstance(self._lm, ScoringLanguageModel):
            replies = generate_each(self._lm, prompts)
            return [_letter_row(item, reply) for item, reply in zip(items, replies, strict=True)]
        scoring = self._lm
        if self._choose_by == "text":
            return [self._by_text(scoring, item) for item in items]
        options = [f" ({letter})" for letter in LETTERS]

        def score(some: Sequence[str]) -> list[int | KnowgateError]:
            values = scoring.score_options(some, options)
            if not np.isfinite(values).all():
                raise LanguageModelError("the model gave a likelihood that is not finite")
            return [int(best) for best in values.argmax(axis=1)]

        best = each_or_error(score, prompts)
        return [_scored_row(item, found) for item, found in zip(items, best, strict=True)]

    def _by_text(self, scoring: ScoringLanguageModel, item: ChoiceItem) -> UaqRow:
        """The option that is likeliest per character as the answer to the bare question."""

        def score(prompts: Sequence[str]) -> list[int | KnowgateError]:
            texts = [f" {option}" for option in item.options]
            values = scoring.score_options(prompts, texts) / [len(text) for text in texts]
            if not np.isfinite(values).all():
                raise LanguageModelError("the model gave a likelihood that is not finite")
            return [int(values[0].argmax())]

        [best] = each_or_error(score, [self._prompter.bare_choice(item)])
        return _scored_row(item, best)


class ReplayAnswerer:
    """Logged replies: a question without one is a row with an error.

    Args:
        replies: see there.
    """

    def __init__(self, replies: LoggedReplies) -> None:
        self._replies = replies

    def answer(self, batch: Sequence[Planned]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        return [self._row(planned) for planned in batch]

    def _row(self, planned: Planned) -> UaqRow:
        found = self._replies.generation(find_reply(self._replies, planned))
        if isinstance(planned.item, ChoiceItem):
            return _letter_row(planned.item, found)
        return _reply_row(planned.form, planned.item, 0, found)


def chosen_letter(reply: str, item: ChoiceItem) -> str | None:
    """The one letter that a reply chooses; None for none and for several."""
    found = MultipleChoice.parse(_without_thinking(reply), item.options)
    return found[0] if found is not None and len(found) == 1 else None


def first_paragraph(text: str) -> str:
    """A reply up to its first blank line, where the published set-up stops.

    What a model thinks aloud before it, in tags, is no part of the reply.

    Example:
        >>> first_paragraph("<think>Let me\\n\\nsee.</think>\\n\\nAnn Li\\n\\nBecause")
        'Ann Li'
    """
    return _without_thinking(text).lstrip().partition("\n\n")[0].rstrip()


def _without_thinking(text: str) -> str:
    return _THINKING.sub("", text, count=1)


def _reply_row(
    form: Any, item: UaqItem, shots: int, reply: list[Generation] | KnowgateError
) -> UaqRow:
    row: dict[str, Any] = {
        "row_id": row_id(MODEL_SYSTEM, form, item.key),
        "system": MODEL_SYSTEM,
        "form": form,
        "key": item.key,
        "language": item.language,
        "type": item.type,
        "kind": item.kind,
        "shots": shots,
    }
    if isinstance(reply, KnowgateError):
        return UaqRow(**row, error=_error(reply))
    return UaqRow(**row, response=first_paragraph(reply[0].text))


def _letter_row(item: ChoiceItem, reply: list[Generation] | KnowgateError) -> UaqRow:
    if isinstance(reply, KnowgateError):
        return UaqRow(**_choice_fields(item), error=_error(reply))
    letter = chosen_letter(reply[0].text, item)
    return UaqRow(
        **_choice_fields(item), response=reply[0].text, letter=letter, right=_is_right(item, letter)
    )


def _scored_row(item: ChoiceItem, best: int | KnowgateError) -> UaqRow:
    if isinstance(best, KnowgateError):
        return UaqRow(**_choice_fields(item), error=_error(best))
    letter = LETTERS[best]
    return UaqRow(**_choice_fields(item), letter=letter, right=_is_right(item, letter))


def _is_right(item: ChoiceItem, letter: str | None) -> bool:
    # Where the right text is offered twice, either letter names it.
    return letter is not None and item.options[LETTERS.index(letter)] == item.target


def _choice_fields(item: ChoiceItem) -> dict[str, Any]:
    return {
        "row_id": row_id(MODEL_SYSTEM, "choice", item.key),
        "system": MODEL_SYSTEM,
        "form": "choice",
        "key": item.key,
        "language": item.language,
        "type": item.type,
    }


def _error(error: KnowgateError) -> dict[str, str]:
    return {"type": type(error).__name__, "detail": str(error)}
