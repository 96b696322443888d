"""Generate answers to checked prompts with encoder, network and decoder."""

from __future__ import annotations

import math
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...guard.deadlines import call_on_thread
from ...guard.errors import InputError, LanguageModelError
from ._contrastive import (
    Chooser,
    ContrastiveChooser,
    SamplingChooser,
    choose_greedily,
    row_uniforms,
)
from ._decoding import Answer, Decoder, Network, StopStrings, run_in_batches
from ._encoding import PromptEncoder, RenderedPrompt
from ._scoring import likeliest_tokens

if TYPE_CHECKING:
    import torch


_ROWS = 32
# More gain nothing: the device is busy, and the last answers of a batch keep all waiting.
_MOST_ROWS = 1024
# The rest is for the prompts' own pass, and for what the estimate does not know.
_SHARE_OF_MEMORY = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one call.

    Attributes:
        max_new_tokens: at least 1.
        stop: strings that end an answer.
        n: answers per prompt, at least 1.
        temperature: finite, 0 or more.
        seed: None draws afresh.
    """

    max_new_tokens: int
    stop: tuple[str, ...]
    n: int = 1
    temperature: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        at_least_one(self.max_new_tokens, "max_new_tokens")
        at_least_one(self.n, "n")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(
                f"{self.temperature} is out of range", where="temperature", hint="use 0 or more"
            )


def at_least_one(value: int, where: str) -> int:
    """Return `value` if it is a positive whole number.

    Raises:
        InputError: it is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{value!r} is out of range", where=where, hint="use 1 or more")
    return value


@dataclass(frozen=True, slots=True)
class _Task:
    """One answer to generate: token ids per stream, and the source of its random numbers."""

    prompt: int
    streams: tuple[list[int], ...]
    sample: int
    occurrence: int


class Engine:
    """Answers rendered prompts in batches.

    Args:
        network: the model.
        encoder: its prompts and texts.
        end_ids: tokens that end an answer.
        batch_size: answers decoded at one time; None for as many as the memory of a GPU
            holds, and 32 elsewhere.
    """

    def __init__(
        self,
        network: Network,
        encoder: PromptEncoder,
        *,
        end_ids: frozenset[int],
        batch_size: int | None,
    ) -> None:
        self.network, self.encoder = network, encoder
        self._end_ids, self._asked_size = end_ids, batch_size
        self.batch_size = _ROWS if batch_size is None else batch_size
        self._lock = threading.Lock()
        self._pieces: list[str] | None = None
        self._stops: dict[tuple[str, ...], StopStrings] = {}

    def text(self, answer: Answer, stop: tuple[str, ...]) -> str:
        """An answer's text up to its stop string."""
        return self._stop_strings(stop).cut(self.encoder.text_of(answer.text_ids))

    def complete(
        self,
        prompts: Sequence[RenderedPrompt],
        settings: Settings,
    ) -> list[list[Answer]]:
        """`settings.n` answers per prompt; a greedy one is computed once and repeated."""
        greedy = settings.temperature == 0
        per_prompt = 1 if greedy else settings.n
        seed = secrets.randbits(63) if settings.seed is None else settings.seed
        seen: Counter[str] = Counter()
        tasks: list[_Task] = []
        for number, (prompt, ids) in enumerate(
            zip(prompts, self.encoder.encode(prompts), strict=True)
        ):
            tasks += [_Task(number, (ids,), k, seen[prompt.text]) for k in range(per_prompt)]
            seen[prompt.text] += 1

        def chooser(batch: Sequence[_Task], budget: int) -> Chooser:
            if greedy:
                return choose_greedily
            uniforms = np.stack(
                [
                    # As if sample k alone were drawn with seed + k, so that several waves
                    # give the samples that one call would give.
                    row_uniforms(seed + t.sample, prompts[t.prompt].text, t.occurrence, budget)
                    for t in batch
                ]
            )
            return SamplingChooser(settings.temperature, uniforms, self.network.device)

        # Samples of one prompt share a batch, so that it is prefilled once.
        at_once = self._rows_at_once(tasks, settings)
        size = max(per_prompt, at_once // per_prompt * per_prompt)
        answers = self._run(tasks, size, settings, chooser)
        rows: list[list[Answer]] = [[] for _ in prompts]
        for task, answer in zip(tasks, answers, strict=True):
            rows[task.prompt] += [answer] * (settings.n if greedy else 1)
        return rows

    def likeliest(
        self, prompt: RenderedPrompt, answer: Answer, count: int
    ) -> list[list[tuple[int, float]]]:
        """The likeliest tokens at each place of an answer, with their log-probabilities."""
        [ids] = self.encoder.encode([prompt])
        return likeliest_tokens(self.network, ids, answer.ids, count)

    async def acomplete(
        self, prompts: Sequence[RenderedPrompt], settings: Settings
    ) -> list[list[Answer]]:
        """As `complete`, in a thread; cancelling it ends the decoding at the next token."""
        return await call_on_thread(lambda: self.complete(prompts, settings))

    def contrast(
        self,
        with_context: Sequence[RenderedPrompt],
        without_context: Sequence[RenderedPrompt],
        merge: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        settings: Settings,
    ) -> list[Answer]:
        """One greedy answer per pair, both streams of a pair in one batch."""
        pairs = zip(
            self.encoder.encode(with_context), self.encoder.encode(without_context), strict=True
        )
        tasks = [_Task(number, pair, 0, 0) for number, pair in enumerate(pairs)]
        choose = ContrastiveChooser(merge)
        return self._run(
            tasks,
            max(1, self._rows_at_once(tasks, settings) // 2),
            settings,
            lambda batch, budget: choose,
        )

    def stream(self, prompt: RenderedPrompt, settings: Settings) -> Iterator[tuple[str, Answer]]:
        """New text after every token, with the answer so far; joined it is the answer's text."""
        [ids] = self.encoder.encode([prompt])
        stops = self._stop_strings(settings.stop)
        budget = self._budget((ids,), settings)
        choose: Chooser = choose_greedily
        if settings.temperature > 0:
            seed = secrets.randbits(63) if settings.seed is None else settings.seed
            uniforms = row_uniforms(seed, prompt.text, 0, budget)[None]
            choose = SamplingChooser(settings.temperature, uniforms, self.network.device)
        shown = ""
        for answer in self._growing_answer(ids, budget, choose, stops):
            text = self.encoder.text_of(answer.text_ids)
            safe = stops.cut(text) if answer.finish else stops.safe(text)
            # A tokenizer may rewrite its last characters; they are held back until final.
            fresh = safe[len(shown) :] if safe.startswith(shown) else ""
            shown += fresh
            yield fresh, answer

    def _growing_answer(
        self, ids: list[int], budget: int, choose: Chooser, stops: StopStrings
    ) -> Iterator[Answer]:
        """Yield the answer after each of its tokens."""
        import torch

        try:
            decoder = Decoder(
                self.network,
                [[ids]],
                owners=[0],
                budgets=[budget],
                choose=choose,
                stops=stops,
                end_ids=self._end_ids,
            )
            for _ in decoder.steps():
                yield decoder.answers[0]
        except torch.OutOfMemoryError as error:
            raise LanguageModelError(
                f"one prompt alone does not fit into the memory of {self.network.device}"
            ) from error

    def _run(
        self,
        tasks: Sequence[_Task],
        size: int,
        settings: Settings,
        chooser: Callable[[Sequence[_Task], int], Chooser],
    ) -> list[Answer]:
        """Answers in the order of `tasks`, computed longest prompt first to save padding."""
        stops = self._stop_strings(settings.stop)
        order = sorted(
            range(len(tasks)), key=lambda at: (-len(tasks[at].streams[0]), tasks[at].prompt)
        )

        def work(places: Sequence[int]) -> list[Answer]:
            batch = [tasks[place] for place in places]
            prompts = {task.prompt: task for task in batch}
            number = {prompt: row for row, prompt in enumerate(prompts)}
            budgets = [self._budget(task.streams, settings) for task in batch]
            return Decoder(
                self.network,
                list(zip(*(task.streams for task in prompts.values()), strict=True)),
                owners=[number[task.prompt] for task in batch],
                budgets=budgets,
                choose=chooser(batch, max(budgets)),
                stops=stops,
                end_ids=self._end_ids,
            ).run()

        made = run_in_batches(order, size, work, what=str(self.network.device))
        by_place = dict(zip(order, made, strict=True))
        return [by_place[place] for place in range(len(tasks))]

    def _rows_at_once(self, tasks: Sequence[_Task], settings: Settings) -> int:
        """Answers decoded at one time: as asked, or what fits into the memory of a GPU."""
        free = self.network.free_bytes()
        if self._asked_size is not None or free is None or not tasks:
            return self.batch_size
        longest = max(len(ids) for task in tasks for ids in task.streams)
        row = self.network.answer_bytes(longest + settings.max_new_tokens)
        return min(_MOST_ROWS, max(1, int(_SHARE_OF_MEMORY * free) // row))

    def _budget(self, streams: Sequence[Sequence[int]], settings: Settings) -> int:
        """Most tokens of an answer: as asked, or up to the end of the context window."""
        window = self.encoder.window
        if window is None:
            return settings.max_new_tokens
        return min(settings.max_new_tokens, window - max(len(ids) for ids in streams))

    def _stop_strings(self, stop: tuple[str, ...]) -> StopStrings:
        with self._lock:
            if stop not in self._stops:
                if self._pieces is None and stop:
                    self._pieces = self.encoder.pieces()
                self._stops[stop] = StopStrings(stop, self._pieces or [], self.encoder.text_of)
            return self._stops[stop]
