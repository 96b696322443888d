"""Generate answers to checked prompts in batches, by `transformers.generate`.

Its logits processor here chooses each token itself: greedily, by a uniform number that belongs
to the sample alone (so that samples depend on nothing else in the batch), or between two streams
that are rows of one batch. Its stopping criterion ends answers at end tokens and stop strings.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.deadlines import check_deadline
from ...guard.engine.prompt_encoder import PromptEncoder
from ...guard.errors import InputError, LanguageModelError
from ...guard.read_models import CheckedSettings
from ._contrastive import (
    Choose,
    choose_between,
    choose_greedily,
    choose_sampled,
    merging_rule,
    row_uniforms,
)
from ._network import Batch, Network, run_in_batches

if TYPE_CHECKING:
    import torch

# What a tokenizer prints for a token that holds part of a character.
_PART_OF_A_CHARACTER = "\ufffd"
_BYTES_PER_CHARACTER = 4
Positive = Annotated[int, Field(strict=True, ge=1)]


def _listed(stop: Any) -> tuple[str, ...]:
    if isinstance(stop, str):
        raise InputError("is one string", where="stop", hint="give a list of strings")
    if not all(isinstance(entry, str) and entry for entry in stop):
        raise InputError("holds something empty or not text", where="stop", hint="remove it")
    return tuple(stop)


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Settings(CheckedSettings):
    """Settings of one call.

    Attributes:
        max_new_tokens: at least 1.
        stop: strings that end an answer, none of them empty.
        batch_size: answers decoded at one time, at least 1.
        n: answers per prompt, at least 1.
        temperature: finite, 0 or more.
        seed: None draws afresh.

    Raises:
        InputError: one of them is not so.
    """

    max_new_tokens: Positive
    stop: Annotated[tuple[str, ...], BeforeValidator(_listed)]
    batch_size: Positive = 32
    n: Positive = 1
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    seed: int | None = None


def cut(text: str, stop: Sequence[str]) -> str:
    """`text` up to the first stop string in it."""
    places = [place for string in stop if (place := text.find(string)) >= 0]
    return text[: min(places)] if places else text


def settled(text: str, stop: Sequence[str]) -> str:
    """The part of an unfinished answer that no further token can change.

    Example:
        >>> settled("one two st", ["stop"])
        'one two '
    """
    text = text.rstrip(_PART_OF_A_CHARACTER)
    begun = (
        size for string in stop for size in range(1, len(string)) if text.endswith(string[:size])
    )
    return text[: len(text) - max(begun, default=0)]


@dataclass(slots=True)
class Answer:
    """One answer, while it is generated.

    Attributes:
        ids: every generated token, the one that ended the answer included.
        logprobs: natural-log probability of each of them at temperature 1.
        finish: why it ended, `stop` (end token or stop string) or `length`; None before.
        ended_by_token: whether the last id is an end token.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["stop", "length"] | None = None
    ended_by_token: bool = False


# One answer to generate: token ids per stream, and what its random numbers depend on: number of
# the sample, prompt, and how often that prompt came before.
_Task = tuple[tuple[list[int], ...], tuple[int, str, int]]


class _Decoding:
    """One batch while it is decoded; with two streams every answer has a row in each."""

    def __init__(
        self, engine: Engine, tasks: Sequence[_Task], choose: Choose, stop: Sequence[str]
    ) -> None:
        self.answers = [Answer() for _ in tasks]
        self._engine, self._choose, self._stop = engine, choose, stop
        self._step, self._streams = 0, len(tasks[0][0])
        rows = [streams[stream] for stream in range(self._streams) for streams, _ in tasks]
        self._batch: Batch = engine.network.read(rows)

    def grow(self, tokens: int) -> None:
        """Add at most so many tokens to each answer."""
        self._batch = self._engine.network.generate(self._batch, tokens, self._pick, self._ended)

    def _pick(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Choose one token per answer, and make it the only one that is possible."""
        tokens, logprobs = self._choose(scores, self._step)
        self._step += 1
        taken = zip(self.answers, tokens.tolist(), logprobs.tolist(), strict=True)
        for answer, token, logprob in taken:
            if answer.finish is not None:
                continue
            if math.isnan(logprob):
                what = "the model's output is not a number; a 16-bit dtype may overflow"
                raise LanguageModelError(what)
            answer.ids.append(token)
            answer.logprobs.append(logprob)
        chosen = tokens.repeat(self._streams)[:, None]
        return scores.new_full(scores.shape, -math.inf).scatter_(1, chosen, 0.0)

    def _ended(self, ids: torch.Tensor, scores: object) -> torch.Tensor:
        """Find the answers that have ended; raises where nobody waits for them any more."""
        check_deadline()
        for answer in self.answers:
            if answer.finish is not None:
                continue
            if answer.ids[-1] in self._engine.end_ids:
                answer.finish, answer.ended_by_token = "stop", True
            elif self._stop and self._stops(answer.ids):
                answer.finish = "stop"
        done = [answer.finish is not None for answer in self.answers]
        ended: torch.Tensor = ids.new_tensor(done * self._streams).bool()
        return ended

    def _stops(self, ids: Sequence[int]) -> bool:
        # Each token has a byte at least, and decoders treat the first one apart.
        size = _BYTES_PER_CHARACTER * (1 + max(map(len, self._stop)))
        text = self._engine.encoder.text_of(ids[-size:])
        return any(string in text for string in self._stop)


class Engine:
    """Answers rendered prompts in batches.

    Args:
        network: the model.
        encoder: its prompts and texts.
        end_ids: tokens that end an answer.
    """

    def __init__(self, network: Network, encoder: PromptEncoder, end_ids: frozenset[int]) -> None:
        self.network, self.encoder, self.end_ids = network, encoder, end_ids

    def text(self, answer: Answer, stop: tuple[str, ...]) -> str:
        """An answer's text up to its stop string."""
        ids = answer.ids[:-1] if answer.ended_by_token else answer.ids
        return cut(self.encoder.text_of(ids), stop)

    def complete(self, prompts: Sequence[str], settings: Settings) -> list[list[Answer]]:
        """`settings.n` answers per prompt; a greedy one is computed once and repeated."""
        greedy = settings.temperature == 0
        per_prompt = 1 if greedy else settings.n
        seen: Counter[str] = Counter()
        tasks: list[_Task] = []
        for prompt, ids in zip(prompts, self.encoder.encode(prompts), strict=True):
            occurrence = seen[prompt]
            tasks += [((ids,), (sample, prompt, occurrence)) for sample in range(per_prompt)]
            seen[prompt] += 1
        # Samples of one prompt share a batch, so that it is read once.
        size = max(per_prompt, settings.batch_size // per_prompt * per_prompt)
        answers = self._run(tasks, size, settings, self._chooser(settings))
        rows = [answers[at : at + per_prompt] for at in range(0, len(answers), per_prompt)]
        return [row * settings.n for row in rows] if greedy else rows

    def contrast(
        self,
        with_context: Sequence[str],
        without_context: Sequence[str],
        rule: tuple[str, float, float],
        settings: Settings,
    ) -> list[Answer]:
        """One answer per pair, both streams of a pair in one batch; `rule` is of `merging_rule`."""
        choose = choose_between(merging_rule(*rule))
        encoded = map(self.encoder.encode, (with_context, without_context))
        tasks: list[_Task] = [(pair, (0, "", 0)) for pair in zip(*encoded, strict=True)]
        size = max(1, settings.batch_size // 2)
        return self._run(tasks, size, settings, lambda batch, budget: choose)

    def stream(self, prompt: str, settings: Settings) -> Iterator[tuple[str, Answer]]:
        """New text after every token, with the answer so far; joined it is the answer's text."""
        import torch

        [ids] = self.encoder.encode([prompt])
        task: _Task = ((ids,), (0, prompt, 0))
        budget, stop, shown = self._budget(task, settings), settings.stop, ""
        try:
            decoding = _Decoding(self, [task], self._chooser(settings)([task], budget), stop)
            [answer] = decoding.answers
            while answer.finish is None:
                decoding.grow(1)
                if answer.finish is None and len(answer.ids) == budget:
                    answer.finish = "length"
                whole = self.text(answer, stop)
                safe = whole if answer.finish else settled(whole, stop)
                # A tokenizer may rewrite its last characters; they are held back until final.
                fresh = safe[len(shown) :] if safe.startswith(shown) else ""
                shown += fresh
                yield fresh, answer
        except torch.OutOfMemoryError as error:
            what = f"one prompt alone does not fit into the memory of {self.network.device}"
            raise LanguageModelError(what) from error

    def _chooser(self, settings: Settings) -> Callable[[Sequence[_Task], int], Choose]:
        """What makes the rule for a batch of tasks and the most tokens of their answers."""
        seed = secrets.randbits(63) if settings.seed is None else settings.seed

        def make(tasks: Sequence[_Task], budget: int) -> Choose:
            if settings.temperature == 0:
                return choose_greedily
            # As if sample k alone were drawn with seed + k, so that several waves give the
            # samples that one call would give.
            rows = [row_uniforms(seed + k, text, seen, budget) for _, (k, text, seen) in tasks]
            return choose_sampled(settings.temperature, np.stack(rows), self.network.device)

        return make

    def _run(
        self,
        tasks: Sequence[_Task],
        size: int,
        settings: Settings,
        chooser: Callable[[Sequence[_Task], int], Choose],
    ) -> list[Answer]:
        """Answers in the order of `tasks`, computed longest prompt first to save padding."""
        budgets = [self._budget(task, settings) for task in tasks]
        # Answers to one prompt stay together, since sorting is stable.
        order = sorted(range(len(tasks)), key=lambda at: (budgets[at], -len(tasks[at][0][0])))
        answers: dict[int, Answer] = {}
        # Answers that the context window ends earlier must not run past it in a longer batch.
        for budget, group in groupby(order, key=budgets.__getitem__):

            def work(places: Sequence[int], budget: int = budget) -> list[Answer]:
                batch = [tasks[place] for place in places]
                decoding = _Decoding(self, batch, chooser(batch, budget), settings.stop)
                decoding.grow(budget)
                for answer in decoding.answers:
                    answer.finish = answer.finish or "length"
                return decoding.answers

            places = list(group)
            made = run_in_batches(places, size, work, what=str(self.network.device))
            answers.update(zip(places, made, strict=True))
        return [answers[place] for place in range(len(tasks))]

    def _budget(self, task: _Task, settings: Settings) -> int:
        """Most tokens of an answer: as asked, or up to the end of the context window."""
        window = self.network.window
        if window is None:
            return settings.max_new_tokens
        return min(settings.max_new_tokens, window - max(map(len, task[0])))
