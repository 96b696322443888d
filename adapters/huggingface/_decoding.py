"""The decoding loop: prompts prefilled once, then one token per row and step.

Rows are answers; with two streams every answer has a row in each, first all rows of
the first stream, then all of the second. A row that is done stays in the batch until
half of the batch is done; then the done rows leave the cache.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...guard.deadlines import check_deadline
from ...guard.errors import InputError, LanguageModelError
from ._contrastive import Chooser
from ._encoding import pad_left
from ._static_decoding import MOST_TOKENS, Capture, StaticStep, StaticSteps, capture_graph

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class Prefilled:
    """Prompts that a model has read.

    Attributes:
        cache: keys and values of every prompt token.
        logits: after the last token, of shape (rows, vocabulary), at least float32.
        mask: of shape (rows, longest prompt), 0 on padding.
        lengths: tokens of each prompt, of shape (rows,).
    """

    cache: Any
    logits: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


def exact_logits(logits: torch.Tensor) -> torch.Tensor:
    """Logits in at least float32, in which log-probabilities are taken."""
    import torch

    return logits if logits.dtype == torch.float64 else logits.float()


# Tokens at the head of all prompts of a batch from which on they are read once for all.
_LEAST_SHARED = 24


def read_prompts(network: Network, prompts: Sequence[Sequence[int]]) -> Prefilled:
    """Read prompts of one stream, padded on the left; a long common beginning is read once.

    Then padding lies between the beginning and the rest, so that a network that counts the
    slots of its cache instead of taking positions must read all prompts of unequal length whole.
    """
    import torch

    shared = _shared_tokens(prompts)
    cache = None
    may_share = network.takes_positions or len(set(map(len, prompts))) == 1
    if len(prompts) > 1 and shared >= _LEAST_SHARED and may_share:
        cache = _read_beginning(network, prompts[0][:shared], len(prompts))
    if cache is None:
        shared = 0
    ids, mask = pad_left([prompt[shared:] for prompt in prompts], network.device)
    positions = (mask.cumsum(-1) - 1).clamp_(min=0) + shared
    mask = torch.cat([mask.new_ones(len(prompts), shared), mask], dim=-1)
    output = network.forward(ids, mask, positions, cache=cache)
    with torch.inference_mode():
        logits = exact_logits(output.logits[:, -1])
        return Prefilled(output.past_key_values, logits, mask, mask.sum(-1))


def _shared_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many tokens all prompts begin with, at least one of each left over.

    Example:
        >>> _shared_tokens([[1, 2, 3], [1, 2], [1, 2, 4]])
        1
    """
    first, last = min(prompts, key=list), max(prompts, key=list)
    most = min(map(len, prompts)) - 1
    return next((n for n in range(most) if first[n] != last[n]), max(0, most))


def _read_beginning(network: Network, ids: Sequence[int], rows: int) -> Any:
    """Return the cache of one beginning, repeated for every row; None where that is impossible."""
    import torch

    given = torch.tensor([list(ids)], device=network.device)
    output = network.forward(given, torch.ones_like(given), torch.arange(len(ids))[None].to(given))
    cache = output.past_key_values
    if not _can_join(cache):
        return None
    with torch.inference_mode():
        cache.batch_repeat_interleave(rows)
    return cache


def read_streams(network: Network, streams: Sequence[Sequence[Sequence[int]]]) -> Prefilled:
    """Read all streams; rows are those of the first stream, then those of the second."""
    if len(streams) == 1:
        return read_prompts(network, streams[0])
    first = read_prompts(network, streams[0])
    if not _can_join(first.cache):
        return read_prompts(network, [prompt for stream in streams for prompt in stream])
    return _join([first, *(read_prompts(network, stream) for stream in streams[1:])])


def _can_join(cache: Any) -> bool:
    """True when every layer keeps all keys and values, whatever their age.

    Sliding windows and recurrent states count tokens in their own ways; such models
    read all streams as one padded batch.
    """
    from transformers.cache_utils import DynamicLayer

    layers: Sequence[Any] = getattr(cache, "layers", ())
    return len(layers) > 0 and all(type(layer) is DynamicLayer for layer in layers)


def _join(parts: Sequence[Prefilled]) -> Prefilled:
    """Join read streams into one batch, shorter ones padded on the left."""
    import torch

    longest = max(part.mask.shape[1] for part in parts)
    with torch.inference_mode():
        masks = [_pad(part.mask[:, :, None], longest)[:, :, 0] for part in parts]
        cache = parts[0].cache
        for number, layer in enumerate(cache.layers):
            layers = [part.cache.layers[number] for part in parts]
            layer.keys = torch.cat([_pad(one.keys, longest) for one in layers])
            layer.values = torch.cat([_pad(one.values, longest) for one in layers])
        return Prefilled(
            cache,
            torch.cat([part.logits for part in parts]),
            torch.cat(masks),
            torch.cat([part.lengths for part in parts]),
        )


def _pad(tensor: torch.Tensor, length: int) -> torch.Tensor:
    """Zeros in front along the last but one axis, up to `length`."""
    import torch

    return torch.nn.functional.pad(tensor, (0, 0, length - tensor.shape[-2], 0))


# What a tokenizer prints for a token that holds part of a character.
_PART_OF_A_CHARACTER = "\ufffd"


def check_stop(stop: Sequence[str]) -> tuple[str, ...]:
    """The stop strings as a tuple.

    Raises:
        InputError: a bare string, or an empty one among them.
    """
    if isinstance(stop, str):
        raise InputError("is one string", where="stop", hint="give a list of strings")
    if not all(isinstance(entry, str) and entry for entry in stop):
        raise InputError("holds something empty or not text", where="stop", hint="remove it")
    return tuple(stop)


class StopStrings:
    """Finds stop strings in growing answers without decoding every answer at every token.

    Only a token whose own text holds the last character of a stop string can
    complete that string; the answer is decoded at those tokens alone.

    Args:
        strings: the stop strings, none empty.
        pieces: the text of every vocabulary entry on its own.
        text_of: decodes an answer's ids.
    """

    def __init__(
        self,
        strings: Sequence[str],
        pieces: Sequence[str],
        text_of: Callable[[Sequence[int]], str],
    ) -> None:
        self.strings = tuple(strings)
        self._text_of = text_of
        last = {string[-1] for string in self.strings}
        # Decoders drop the space in front of a lone word, so a final space can hide
        # in any token.
        self._always = " " in last
        self._enders = frozenset(
            token
            for token, piece in enumerate(pieces)
            if self.strings and (_PART_OF_A_CHARACTER in piece or not last.isdisjoint(piece))
        )

    def ended_by(self, ids: Sequence[int]) -> bool:
        """True when the last token of `ids` completes a stop string."""
        if not self.strings or not (self._always or ids[-1] in self._enders):
            return False
        text = self._text_of(ids)
        return any(string in text for string in self.strings)

    def cut(self, text: str) -> str:
        """`text` up to the first stop string in it."""
        places = [place for string in self.strings if (place := text.find(string)) >= 0]
        return text[: min(places)] if places else text

    def safe(self, text: str) -> str:
        """The part of an unfinished answer that no further token can change."""
        text = self.cut(text).rstrip(_PART_OF_A_CHARACTER)
        held = 0
        for string in self.strings:
            for size in range(min(len(string) - 1, len(text)), held, -1):
                if text.endswith(string[:size]):
                    held = size
                    break
        return text[: len(text) - held]


Item = TypeVar("Item")
Result = TypeVar("Result")


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

    @property
    def text_ids(self) -> list[int]:
        """All ids but an end token."""
        return self.ids[:-1] if self.ended_by_token else self.ids


class Network:
    """A causal LM behind a lock: one forward pass at a time.

    Args:
        model: a transformers causal LM in evaluation mode.
        window: context window in tokens, None when the model states none.
    """

    def __init__(self, model: Any, window: int | None) -> None:
        self.model = model
        self.window = window
        self._lock = threading.RLock()
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        accepted = inspect.signature(inner.forward).parameters
        self.takes_positions = "position_ids" in accepted
        self._takes_keep = "logits_to_keep" in accepted
        self._spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
        # Short answers on a cache of fixed size, where graphs make that pay.
        self.static: StaticSteps | None = None
        if self.device.type == "cuda" and not self._spread:
            self.use_fixed_cache(capture_graph)

    @property
    def device(self) -> torch.device:
        """Where the first layer is."""
        device: torch.device = self.model.device
        return device

    def select(self, cache: Any, rows: torch.Tensor) -> None:
        """Keep these rows of a cache, in this order, repeats allowed.

        Raises:
            LanguageModelError: the cache cannot be split by rows.
        """
        try:
            # The layers of a model over several devices take an index from the host only.
            cache.batch_select_indices(rows.cpu() if self._spread else rows)
        except AttributeError as error:
            raise LanguageModelError(
                f"the cache of this kind of model ({type(cache).__name__}) cannot be split by rows"
            ) from error

    def answer_bytes(self, tokens: int) -> int:
        """Bytes that one answer takes with its prompt, of so many tokens together: about."""
        config = self.model.config.get_text_config()
        heads = int(config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        kept = int(getattr(config, "num_key_value_heads", None) or heads)
        size = int(self.model.dtype.itemsize)
        per_token = 2 * int(config.num_hidden_layers) * kept * width * size
        # Cut once when prompts become answers, and logits in three wide copies while drawing.
        return 2 * tokens * per_token + 32 * int(config.vocab_size)

    def free_bytes(self) -> int | None:
        """Memory of the CUDA device that new tensors may take, None elsewhere."""
        import torch

        if self.device.type != "cuda":
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(free + unused)

    def use_fixed_cache(self, capture: Capture | None) -> None:
        """Decode short answers on a cache of fixed size, with `capture` for its steps."""
        self.static = StaticSteps(self._last_logits, capture, self._lock)

    def begin_static(
        self, cache: Any, mask: torch.Tensor, positions: torch.Tensor, length: int
    ) -> StaticStep | None:
        """A fixed cache for short answers; None where steps are better run as usual."""
        short = mask.shape[1] - length <= MOST_TOKENS
        if self.static is None or not short or not _can_join(cache):
            return None
        return self.static.begin(cache, mask, positions, length)

    def _last_logits(self, *given: Any, cache: Any) -> torch.Tensor:
        logits: torch.Tensor = self.forward(*given, cache=cache).logits[:, -1]
        return logits

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: Any = None,
        every_token: bool = False,
        hidden: bool = False,
    ) -> Any:
        """One pass; logits of the last token only unless `every_token`.

        Args:
            ids: of shape (rows, tokens).
            mask: of shape (rows, cached tokens + tokens), 0 on padding.
            positions: of shape (rows, tokens), counted without padding.
            cache: of the earlier tokens.
            every_token: whether logits of all tokens are wanted.
            hidden: whether the hidden states of all layers are wanted.

        Raises:
            DeadlineExceededError: nobody waits for it any more.
            LanguageModelError: the pass failed.
            torch.OutOfMemoryError: the batch is too large for the device.
        """
        import torch

        options: dict[str, Any] = {"output_hidden_states": True} if hidden else {}
        if self.takes_positions:
            last = self.window - 1 if self.window else None
            # A row that is done may run past the window while others go on.
            options["position_ids"] = positions if last is None else positions.clamp(max=last)
        if self._takes_keep and not every_token:
            options["logits_to_keep"] = 1
        try:
            with self._lock, torch.inference_mode():
                check_deadline()
                return self.model(
                    input_ids=ids,
                    attention_mask=mask,
                    past_key_values=cache,
                    use_cache=True,
                    return_dict=True,
                    **options,
                )
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            raise LanguageModelError(
                f"the forward pass failed on {self.device}: {type(error).__name__}"
            ) from error


class Decoder:
    """Decodes one batch.

    Args:
        network: the model.
        streams: per stream, the token ids of every prompt; all streams equally long.
        owners: per answer, the number of its prompt; several answers may share one,
            which is then prefilled once.
        budgets: per answer, the most tokens it may have, at least 1.
        choose: picks the tokens.
        stops: the stop strings.
        end_ids: tokens that end an answer.
    """

    def __init__(
        self,
        network: Network,
        streams: Sequence[Sequence[Sequence[int]]],
        *,
        owners: Sequence[int],
        budgets: Sequence[int],
        choose: Chooser,
        stops: StopStrings,
        end_ids: frozenset[int],
    ) -> None:
        self.answers = [Answer() for _ in owners]
        self._network, self._choose, self._stops = network, choose, stops
        self._budgets, self._end_ids = budgets, end_ids
        self._streams = len(streams)
        self._rows = list(range(len(owners)))
        self._step = 0
        self._prefill(streams, owners)
        self._static = self._begin_static()

    @property
    def done(self) -> bool:
        """True when every answer has ended."""
        return all(answer.finish is not None for answer in self.answers)

    def run(self) -> list[Answer]:
        """Decode to the end; returns the answers in the order of `owners`."""
        for _ in self.steps():
            pass
        return self.answers

    def steps(self) -> Iterator[None]:
        """Decode, pausing after every token."""
        while True:
            tokens = self._take_tokens()
            yield
            if self.done:
                if self._static is not None and self._network.static is not None:
                    self._network.static.give_back(self._static)
                return
            self._feed(tokens if self._static is not None else self._drop_done_rows(tokens))

    def _prefill(self, streams: Sequence[Sequence[Sequence[int]]], owners: Sequence[int]) -> None:
        import torch

        read = read_streams(self._network, streams)
        with torch.inference_mode():
            self._cache: Any = read.cache
            self._logits = read.logits
            # Room for the mask of every token to come, so that no step copies it.
            room = read.mask.new_ones(len(read.mask), max(self._budgets))
            self._mask = torch.cat([read.mask, room], dim=-1)
            self._length = read.mask.shape[1]
            self._positions = read.lengths - 1
            prompts = len(streams[0])
            if list(owners) != list(range(prompts)):
                self._select(
                    [number * prompts + owner for number in range(len(streams)) for owner in owners]
                )

    def _begin_static(self) -> StaticStep | None:
        step = self._network.begin_static(self._cache, self._mask, self._positions, self._length)
        if step is not None:
            self._cache = None
        return step

    def _take_tokens(self) -> torch.Tensor:
        import torch

        with torch.inference_mode():
            tokens, logprobs = self._choose(self._logits, self._rows, self._step)
        self._step += 1
        taken = zip(self._rows, tokens.tolist(), logprobs.tolist(), strict=True)
        for row, token, logprob in taken:
            answer = self.answers[row]
            if answer.finish is not None:
                continue
            if math.isnan(logprob):
                raise LanguageModelError(
                    "the model's output is not a number; a 16-bit dtype may overflow"
                )
            answer.ids.append(token)
            answer.logprobs.append(logprob)
            if token in self._end_ids:
                answer.finish, answer.ended_by_token = "stop", True
            elif self._stops.ended_by(answer.ids):
                answer.finish = "stop"
            elif len(answer.ids) >= self._budgets[row]:
                answer.finish = "length"
        return tokens

    def _drop_done_rows(self, tokens: torch.Tensor) -> torch.Tensor:
        live = [place for place, row in enumerate(self._rows) if self.answers[row].finish is None]
        if 2 * len(live) > len(self._rows):
            return tokens
        import torch

        with torch.inference_mode():
            rows = len(self._rows)
            self._select([n * rows + place for n in range(self._streams) for place in live])
            self._rows = [self._rows[place] for place in live]
            return tokens[torch.as_tensor(live, device=tokens.device)]

    def _select(self, places: list[int]) -> None:
        """Keep these rows of the batch, in this order, repeats allowed."""
        import torch

        index = torch.as_tensor(places, device=self._logits.device)
        self._network.select(self._cache, index)
        self._logits, self._mask = self._logits[index], self._mask[index]
        self._positions = self._positions[index]

    def _feed(self, tokens: torch.Tensor) -> None:
        import torch

        if self._static is not None:
            self._logits = exact_logits(self._static.run(tokens.repeat(self._streams)))
            return
        with torch.inference_mode():
            self._length += 1
            self._positions = self._positions + 1
            ids = tokens.repeat(self._streams)[:, None]
        output = self._network.forward(
            ids, self._mask[:, : self._length], self._positions[:, None], cache=self._cache
        )
        with torch.inference_mode():
            self._cache = output.past_key_values
            self._logits = exact_logits(output.logits[:, -1])


def run_in_batches(
    items: Sequence[Item],
    size: int,
    work: Callable[[Sequence[Item]], list[Result]],
    *,
    what: str,
) -> list[Result]:
    """Run `work` on consecutive batches, halving the batch whenever memory runs out.

    Args:
        items: all items.
        size: items per batch, at least 1; it stays halved for the rest of the call.
        work: returns one result per item.
        what: the device, for the message.

    Raises:
        LanguageModelError: a single item does not fit.
    """
    import torch

    results: list[Result] = []
    while len(results) < len(items):
        batch = items[len(results) : len(results) + size]
        try:
            results += work(batch)
            continue
        except torch.OutOfMemoryError:
            # Handled below: the failed batch's tensors are freed only outside this block.
            size = len(batch) // 2
        if size == 0:
            raise LanguageModelError(f"one prompt alone does not fit into the memory of {what}")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return results
