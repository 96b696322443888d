"""Relevance by the verdict of a language model: do the passages suffice?

What the model is asked stands in a prompt file. Question and passages are quoted in it between
lines with a mark. The mark is a hash of everything that is quoted, so that no passage can hold
the mark of the prompt that it is quoted in, and the same question with the same passages is
always the same prompt.
"""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..._byte_cache import ByteCache, content_key
from ..._model_steps import (
    Draw,
    Steps,
    arun_steps,
    draw_some,
    first_token_share,
    no_verdict,
    score_yes,
    verdicts_of,
)
from ...contracts import (
    Generation,
    LanguageModel,
    ScoringLanguageModel,
    SetRelevanceScorer,
    SetScore,
    checked_language_model,
)
from ...errors import InputError
from ...fingerprint import Fingerprint
from ...prompts import Prompt
from ...routing import at_once
from ...text import clean_text
from ..confidence import Sampling
from ._echo import StatedText

# Its kind in fingerprints.
JUDGE = "judge"
# How quoted material looks; part of the fingerprint.
_QUOTING = 1
_CUT = " […]"
_MARK_DIGITS = 16
# Prompts per call of the model: what arrived is kept after each call.
_BATCH_SIZE = 8
_CACHE_BYTES = 8 * 2**20
_YES, _NO = ("yes", "是"), ("no", "否")


class AwaitedScorer(SetRelevanceScorer):
    """A scorer that waits rather than computes, so that it can be awaited.

    It is written once, as a coroutine: the sync forms run one that waits for nothing.
    """

    async def ascore(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """As `score`, without blocking the event loop."""
        return await self.ascore_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The score of each passage alone, of shape (len(pairs),)."""
        return at_once(self._alone(pairs, awaits=False))

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """As `score_pairs`, without blocking the event loop."""
        return await self._alone(pairs, awaits=True)

    async def ascore_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """As `score_set`, without blocking the event loop."""
        return (await self.ascore_sets([question], [passages]))[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """The scores of each question's passages, and the value of all together."""
        return at_once(self._values(questions, passages, awaits=False))

    async def ascore_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `score_sets`, without blocking the event loop."""
        return await self._values(questions, passages, awaits=True)

    async def _alone(
        self, pairs: Sequence[tuple[str, str]], *, awaits: bool
    ) -> NDArray[np.float64]:
        pairs = list(pairs)
        questions, passages = [asked for asked, _ in pairs], [(told,) for _, told in pairs]
        found = await self._values(questions, passages, awaits=awaits)
        return np.asarray([one.scores[0] for one in found], dtype=np.float64)

    @abstractmethod
    async def _values(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]], *, awaits: bool
    ) -> list[SetScore]:
        """As `score_sets`; the event loop goes on meanwhile where it `awaits`."""


class SufficiencyJudge(AwaitedScorer):
    """A language model's verdict on whether passages suffice to answer, in [0, 1].

    Passages are judged together, which is one verdict per question: use the aggregator `joint`,
    as policies for this scorer do by default. The verdict is read from

    - P(yes) / (P(yes) + P(no)) by the log-likelihoods of both words, in English and Chinese,
      where the model scores given options, as local models do: one forward pass;
    - otherwise the log-probability of the first token of a greedy reply, where the model gives
      that and the reply begins with a word: one call;
    - otherwise the share of yes among k verdicts: the greedy reply and k − 1 samples.

    A model that fails, or of whose verdicts half or more are neither yes nor no, raises a
    `LanguageModelError`; the guard then takes the route that `on_error` has for relevance.
    Nothing is guessed. Verdicts are kept by the content of the prompt; failures are not.

    Concurrency, deadline and attempts of calls are those of the language model. Passages that
    only repeat the question are 0 without a call.

    Args:
        language_model: what is asked; wrap a chat model in
            `knowgate.adapters.langchain.ChatModelLM`.
        prompt: with the slots `{mark}`, `{question}` and `{passages}`; by default the bundled
            `sufficiency`. `Prompt.bundled("sufficiency_zh")` asks in Chinese.
        sampling: how many verdicts k, and how they are drawn; five by default. Not used where
            the model gives probabilities.
        singly: whether each passage is also judged alone, which takes one more verdict per
            passage. Otherwise all passages have the value of their set.
        passage_characters: of one passage; what lies beyond is cut.
        total_characters: of all passages of one question; later ones are cut, or left out.
        cache_bytes: of the verdicts that are kept; 0 keeps none.

    Raises:
        InputError: `language_model` is not one, the prompt lacks a slot or has another, or a
            limit is out of range.

    Example:
        >>> from knowgate.guard.testing import ScriptedLanguageModel
        >>> judge = SufficiencyJudge(ScriptedLanguageModel({"at nine": "yes"}, default="no"))
        >>> judge.score_set("When do you open?", ["We open at nine.", "We are friendly."]).joint
        1.0
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        prompt: Prompt | None = None,
        sampling: Sampling | None = None,
        singly: bool = False,
        passage_characters: int = 4_000,
        total_characters: int = 24_000,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._language_model = checked_language_model(language_model)
        self._prompt = prompt = prompt or Prompt.bundled("sufficiency")
        prompt.require_slots({"mark", "passages", "question"})
        self._sampling = sampling or Sampling(n=5)
        self._singly = singly
        self._limits = passage_characters, total_characters
        if min(self._limits) < 1:
            raise InputError("must be at least 1", where="passage_characters, total_characters")
        self._scores_options = isinstance(language_model, ScoringLanguageModel)
        self._verdicts: ByteCache[bytes, float] = ByteCache(cache_bytes, lambda _: 24, "verdicts")
        self._calls = 0
        self._counting = threading.Lock()

    @property
    def calls(self) -> int:
        """How often the language model was asked so far; a kept verdict is no call."""
        return self._calls

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this judge is bound to."""
        options = self._scores_options
        return Fingerprint(
            kind=JUDGE,
            backend="language_model",
            settings={
                "language_model": self._language_model.fingerprint,
                "method": "options" if options else "reply",
                "samples": None if options else self._sampling.n,
                "temperature": None if options else self._sampling.temperature,
                "seed": None if options else self._sampling.seed,
                "prompt_sha256": self._prompt.sha256,
                "quoting": _QUOTING,
                "singly": self._singly,
                "passage_characters": self._limits[0],
                "total_characters": self._limits[1],
            },
        )

    # -- verdicts ---------------------------------------------------------------------

    async def _values(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]], *, awaits: bool
    ) -> list[SetScore]:
        if not all(passages):
            raise InputError("holds no passage", where="passages")
        asked: list[tuple[str, Sequence[str]]] = []
        for question, texts in zip(questions, passages, strict=True):
            asked += [(question, texts), *((question, (text,)) for text in texts if self._singly)]
        verdicts, found = iter(await self._judged(asked, awaits=awaits)), []
        for texts in passages:
            joint = next(verdicts)
            scores = tuple(next(verdicts) if self._singly else joint for _ in texts)
            found.append(SetScore(scores, joint))
        return found

    async def _judged(
        self, asked: Sequence[tuple[str, Sequence[str]]], *, awaits: bool
    ) -> list[float]:
        """All verdicts; every prompt is asked and kept, although one that failed raises here."""
        filled = [self._filled(question, passages) for question, passages in asked]
        keys = {prompt: content_key(prompt) for prompt in filled if prompt is not None}
        kept = self._verdicts.found(keys.values())
        known: dict[str | None, float] = {None: 0.0}
        known.update((prompt, kept[key]) for prompt, key in keys.items() if key in kept)
        missing = [prompt for prompt in keys if prompt not in known]
        steps = [self._steps(prompt) for prompt in missing]
        fresh = await arun_steps(
            self._language_model, steps, _BATCH_SIZE, raising=False, awaits=awaits
        )
        for prompt, verdict in zip(missing, fresh, strict=True):
            if isinstance(verdict, Exception):
                raise verdict
            known[prompt] = verdict
        return [known[prompt] for prompt in filled]

    def _steps(self, prompt: str) -> Steps[float]:
        verdict = yield from self._verdict(prompt)
        self._verdicts.keep({content_key(prompt): verdict})
        return verdict

    def _verdict(self, prompt: str) -> Steps[float]:
        self._count(1)
        if self._scores_options:
            return (yield from score_yes(prompt, _YES, _NO))
        replies: list[Generation] = yield Draw(prompt)
        # Of "**Yes**" the first token is another one, whose probability says nothing.
        if replies[0].token_logprobs and replies[0].text.lstrip(" ")[:1].isalpha():
            return first_token_share(replies[0])
        sampling, error = self._sampling, None
        if sampling.n > 1:
            self._count(sampling.n - 1)
            draw = Draw(prompt, sampling.n - 1, sampling.temperature, sampling.seed)
            further, error = yield from draw_some(draw)
            replies += further
        verdicts = verdicts_of(replies)
        if 2 * len(verdicts) <= sampling.n:
            raise error or no_verdict()
        return sum(verdicts) / len(verdicts)

    def _count(self, calls: int) -> None:
        with self._counting:
            self._calls += calls

    # -- prompts ----------------------------------------------------------------------

    def _filled(self, question: str, passages: Sequence[str]) -> str | None:
        """The prompt; None where the passages say nothing beside the question."""
        question, texts = clean_text(question), [clean_text(text) for text in passages]
        read = ((text, StatedText.of(question, text).stated) for text in texts)
        if not any((text if stated is None else stated).strip() for text, stated in read):
            return None
        texts = self._cut(texts)
        mark = _mark(question, texts)
        quoted = "\n\n".join(
            _quoted(f"passage {number} of {len(texts)}", text, mark)
            for number, text in enumerate(texts, start=1)
        )
        return self._prompt.fill(
            mark=mark, question=_quoted("question", question, mark), passages=quoted
        )

    def _cut(self, texts: Sequence[str]) -> list[str]:
        most, left = self._limits
        found: list[str] = []
        for text in texts:
            if room := min(most, left):
                found.append(text if len(text) <= room else text[:room] + _CUT)
                left -= min(len(text), room)
        return found


def _mark(question: str, texts: Sequence[str]) -> str:
    """A mark that the quoted texts do not hold: each would have to contain its own hash."""
    digest = hashlib.sha256()
    for text in (question, *texts):
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:_MARK_DIGITS]


def _quoted(what: str, text: str, mark: str) -> str:
    return f"[{mark}: {what}]\n{text}\n[{mark}: end of {what}]"
