"""Conflict detectors, and entailment by a sequence classifier trained on NLI."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...contracts import (
    ConflictFinding,
    EntailmentModel,
    Generation,
    LanguageModel,
    TextEmbedder,
    View,
    checked_entailment,
    checked_language_model,
    probability_of,
)
from ...engine import BiEncoderScorer, CrossEncoderScorer
from ...errors import InputError, LanguageModelError, ModelFolderError, SignalValueError
from ...matching import Sameness, is_refusal, same_answer, told_question
from ...prompts import Prompt
from ...routing import at_once
from .meaning_rules import Rule

# An answer, the indices of the passages that gave it, whether it is the closed-book one.
Said = tuple[str, tuple[int, ...], bool]


def views_of(question: str, said: Sequence[Said], same: Sameness) -> list[View]:
    """One view per meaning, in the order in which the meanings first appear.

    An answer joins the first view of which it is the same as every answer. So any
    two answers that differ are in different views, whatever the order, even where
    a vaguer third is the same as both ("1972" beside two days of that year).

    Args:
        question: that was asked; given to a `same` that has a method `about`.
        said: the answers; empty ones and refusals are nobody's view.
        same: when two answers count as one.
    """
    equal = told_question(same, question)
    groups: list[list[Said]] = []
    for one in said:
        if not one[0].strip() or is_refusal(one[0]):
            continue
        fitting = (g for g in groups if all(equal(other[0], one[0]) for other in g))
        home = next(fitting, [])
        if not home:
            groups.append(home)
        home.append(one)
    return [_view(group) for group in groups]


def _view(group: Sequence[Said]) -> View:
    passages = sorted({index for _, indices, _ in group for index in indices})
    return View(group[0][0].strip(), tuple(passages), any(memory for _, _, memory in group))


class AnswerConflict:
    """Conflict when the closed-book and the context answer are not the same.

    The context answer is drawn greedily from the same language model, from all
    passages together: one call. A refusal on either side is no conflict: there is
    only one answer then. Passages that contradict each other go unnoticed here
    (see `PassageConflict`).

    Args:
        language_model: what is asked.
        prompt: prompt with the slots `{context}` and `{question}`.
        same: when two answers count as one; by default when they are equal after
            normalisation. `SameMeaning` compares what they mean.

    Attributes:
        compares_passages: False; a policy that asks for that rejects this detector.

    Raises:
        InputError: `language_model` is not one, e.g. a bare LangChain chat model.
    """

    compares_passages: ClassVar[bool] = False

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        same: Sameness = same_answer,
    ) -> None:
        self._language_model = checked_language_model(language_model)
        self._prompt = prompt or Prompt.bundled("with_context")
        self._same = same

    def _prompts(self, question: str, passages: Sequence[str]) -> dict[str, list[int]]:
        """What to ask the language model: each prompt with the passages that it holds."""
        if not passages:
            return {}
        filled = self._prompt.fill(context="\n\n".join(passages), question=question)
        return {filled: list(range(len(passages)))}

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """The answers there are, with what supports each.

        Raises:
            LanguageModelError: the model did not answer, or with nothing.
        """
        return at_once(self._examined(question, closed_book_answer, passages, awaits=False))

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""
        return await self._examined(question, closed_book_answer, passages, awaits=True)

    async def _examined(
        self,
        question: str,
        closed_book: str,
        passages: Sequence[str],
        *,
        awaits: bool,
    ) -> ConflictFinding:
        prompts, model = self._prompts(question, passages), self._language_model
        drawn: Sequence[Sequence[Generation]] = ()
        if prompts:
            asked = list(prompts)
            drawn = await model.agenerate(asked) if awaits else model.generate(asked)
        if not all(found.text.strip() for [found] in drawn):
            # Taken for no view, it would pass for agreement.
            raise LanguageModelError("an empty reply to the question whether there is a conflict")
        said: list[Said] = [
            (found.text, tuple(indices), False)
            for indices, [found] in zip(prompts.values(), drawn, strict=True)
        ]
        said.append((closed_book, (), True))
        return ConflictFinding.of(views_of(question, said, self._same))

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """True when the finding is a conflict.

        Raises:
            LanguageModelError: the model did not answer.
        """
        return self.examine(question, closed_book_answer, passages).conflict

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        return (await self.aexamine(question, closed_book_answer, passages)).conflict


class PassageConflict(AnswerConflict):
    """Conflict when passages, each read alone, or the model's memory answer differently.

    One answer is drawn greedily from every passage by itself; a passage that gives
    none (a refusal) has no view. The answers of one question are one call of the
    language model with as many prompts as there are different passages.

    Args:
        language_model: what is asked.
        prompt: prompt with the slots `{context}` and `{question}`.
        same: when two answers count as one; by default when they are equal after
            normalisation. `SameMeaning` compares what they mean.

    Attributes:
        compares_passages: True.

    Raises:
        InputError: `language_model` is not one, e.g. a bare LangChain chat model.

    Example:
        >>> from knowgate.guard.testing import ScriptedLanguageModel
        >>> model = ScriptedLanguageModel({"at nine": "nine", "at ten": "ten"})
        >>> passages = ["We open at nine.", "We are friendly.", "We open at ten."]
        >>> finding = PassageConflict(model).examine("When do you open?", "Ten.", passages)
        >>> finding.kind, [(view.answer, view.passages) for view in finding.views]
        ('passages', [('nine', (0,)), ('ten', (2,))])
    """

    compares_passages: ClassVar[bool] = True

    def _prompts(self, question: str, passages: Sequence[str]) -> dict[str, list[int]]:
        prompts: dict[str, list[int]] = {}
        for index, passage in enumerate(passages):
            if passage.strip():
                filled = self._prompt.fill(context=passage, question=question)
                prompts.setdefault(filled, []).append(index)
        return prompts


class CrossEncoderEntailment:
    """Whether one text follows from another, by a Hugging Face sequence classifier.

    Serves `SameMeaning(nli=…)` and every other place that asks for `entails`.

    Args:
        folder: a model on disk with `model.safetensors` and its tokenizer; one of its
            labels must be called entailment (as in models trained on MNLI).
        device: `cpu`, `cuda`, `cuda:N`; None picks CUDA where there is one.
        threshold: probability in [0, 1] from which `entails` says yes.
        max_length: tokens of both texts together; what lies beyond is cut. None for as many
            as the model reads.

    Raises:
        ModelFolderError: no such folder, no safetensors weights, no such label, or a
            configuration that names code.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
        InputError: the threshold is off its scale.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        device: str | None = None,
        threshold: float = 0.5,
        max_length: int | None = None,
    ) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InputError("must be a number from 0 to 1", where="threshold")
        path = Path(folder)
        if not path.is_dir():
            raise ModelFolderError(
                "no such folder", where=str(path), hint="name the folder of an NLI model"
            )
        self._scorer = CrossEncoderScorer(path, device=device or "auto", max_length=max_length)
        if self._scorer.output != "entailment":
            raise ModelFolderError(
                "no label is called entailment",
                where=str(path),
                hint="name a model trained on natural language inference",
            )
        self._swapped = self._scorer.passage_first
        self._threshold = threshold
        loaded = self._scorer.loaded
        configuration = loaded.settings["configuration_sha256"]
        parts = (loaded.weights_sha256, str(configuration), str(max_length or 512))
        self.fingerprint = f"cross_encoder:{hashlib.sha256(' '.join(parts).encode()).hexdigest()}"

    def entails(self, premise: str, hypothesis: str) -> bool:
        """Whether `hypothesis` follows from `premise`."""
        return self.probability(premise, hypothesis) >= self._threshold

    def probability(self, premise: str, hypothesis: str) -> float:
        """Probability in [0, 1] that `hypothesis` follows from `premise`."""
        pair = (hypothesis, premise) if self._swapped else (premise, hypothesis)
        [log_odds] = self._scorer.score_pairs([pair]).tolist()
        return 0.5 * (1.0 + math.tanh(log_odds / 2.0))


# Chosen by `benchmarks/same_meaning.py`: the lowest at which the embedded bi-encoder takes at
# most 1 in 100 pairs of answers to different questions of one kind, the closest of ten each,
# for the same where the rules leave them open.
DEFAULT_THRESHOLD = 0.65
# Cosine below which an entailment model is not asked, and from which probability it says yes.
_FLOOR, _ENTAILED = 0.3, 0.5


class SameMeaning:
    """Whether two answers to one question mean the same; can be called with both.

    Rules come first and decide what they can: answers equal after normalisation or
    with their numerals, dates and units in one form are the same, a short answer
    within a longer one that gives it as its answer is too; numbers, dates, units
    that clash and negations or opposites of each other are not. No similarity is
    asked then, because it would hardly see the difference. Where a number, a date
    or a negation stands in one answer only, similarity may not call them the same.

    What the rules leave open is decided by the cosine of the embeddings. With an
    entailment model, that decides instead wherever the cosine reaches .3 and
    a rule left it open: the same then means that each answer entails the other.

    Without an embedder and an entailment model, what is left open is not the same;
    nor is it with the embedded model (`bi_encoder`), which knows English only, where
    an answer is not in Latin letters.

    Args:
        embedder: anything with `embed`, `bi_encoder` for the embedded
            all-MiniLM-L6-v2 (loaded on first use), None for none.
        nli: an entailment model (`CrossEncoderEntailment`, say), None for none.
        threshold: cosine in [-1, 1] from which two answers are the same.

    Raises:
        InputError: a part is not what it should be, or a number is off its scale.

    Example:
        >>> same = SameMeaning()
        >>> same("Paris", "It is Paris, the capital of France.")
        True
        >>> same("It is required", "It is not required")
        False
    """

    def __init__(
        self,
        embedder: TextEmbedder | Literal["bi_encoder"] | None = None,
        nli: EntailmentModel | None = None,
        *,
        threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        if not (embedder is None or isinstance(embedder, TextEmbedder) or embedder == "bi_encoder"):
            raise InputError(
                f"{embedder!r} cannot embed",
                where="embedder",
                hint='give an object with embed(texts), "bi_encoder", or None',
            )
        self._nli = checked_entailment(nli, "nli")
        self._embedder = embedder
        self._by_name = embedder == "bi_encoder"
        if isinstance(threshold, bool) or not -1.0 <= threshold <= 1.0:
            raise InputError("must be a number from -1 to 1", where="threshold")
        self._threshold = threshold

    def about(self, question: str) -> Sameness:
        """The same test for answers to `question`, which an entailment model is then told."""
        return partial(self.judge, question=question)

    def __call__(self, first: str, second: str) -> bool:
        """Whether both answers mean the same, as `judge` decides without a question."""
        return self.judge(first, second)

    def judge(self, first: str, second: str, *, question: str = "") -> bool:
        """Whether both answers to `question` mean the same; empty answers never do.

        Raises:
            SignalValueError: embedder or entailment model returned no usable number.
        """
        rule = Rule.between(first, second)
        if rule in (Rule.SAME, Rule.DIFFERENT):
            return rule is Rule.SAME
        if self._embedder is None or (self._by_name and not _latin(first + second)):
            return self._entailed(question, first, second)
        cosine = self._cosine(first, second)
        if self._nli is not None:
            return cosine >= _FLOOR and self._entailed(question, first, second)
        return rule is Rule.OPEN and cosine >= self._threshold

    def _entailed(self, question: str, first: str, second: str) -> bool:
        said = [f"{question} {answer}".strip() for answer in (first, second)]
        return self._nli is not None and all(
            probability_of(self._nli, *pair, signal="conflict") >= _ENTAILED
            for pair in (said, said[::-1])
        )

    def _cosine(self, first: str, second: str) -> float:
        embedder: Any = _bi_encoder() if self._by_name else self._embedder
        vectors = np.asarray(embedder.embed([first, second]), dtype=np.float64)
        cosine = float(np.dot(vectors[0], vectors[1]))
        if not math.isfinite(cosine):
            raise SignalValueError("conflict", "the embedder returned NaN or infinity")
        return cosine


@lru_cache(maxsize=1)
def _bi_encoder() -> BiEncoderScorer:
    return BiEncoderScorer()


def _latin(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    # Beyond Latin Extended-B and its additions; an accent does not make a language foreign.
    return all(ord(letter) < 0x250 or 0x1E00 <= ord(letter) < 0x1F00 for letter in letters)
