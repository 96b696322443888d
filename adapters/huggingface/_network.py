"""A causal language model behind a lock: reads batches of prompts, goes on from them, scores."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ...guard.deadlines import check_deadline
from ...guard.errors import LanguageModelError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")
# A layout of one batch: ids and mask of shape (rows, tokens), and a cache of their beginning.
Batch = tuple["torch.Tensor", "torch.Tensor", Any]

# Tokens at the head of all prompts of a batch from which on they are read once for all.
_LEAST_SHARED = 24


class Network:
    """A causal LM behind a lock: one forward pass, or one generation, at a time.

    Args:
        model: a transformers causal LM in evaluation mode.
        window: context window in tokens, None when the model states none.
    """

    def __init__(self, model: Any, window: int | None) -> None:
        from transformers import GenerationConfig

        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        # A copy around the same weights: penalties and the like that come with a model would
        # make other answers than its distribution does.
        self.model = copy(inner)
        self.model.generation_config = GenerationConfig()
        self.window = window
        self.device: torch.device = inner.device
        self._lock = threading.RLock()
        accepted = inspect.signature(inner.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._takes_keep = "logits_to_keep" in accepted
        # Sliding windows and recurrent states count tokens in their own ways.
        self._joins = True

    @contextmanager
    def _running(self) -> Iterator[None]:
        """One thread at a time; what the model raises becomes a typed error."""
        import torch

        try:
            with self._lock, torch.inference_mode():
                check_deadline()
                yield
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            what = f"the forward pass failed on {self.device}: {type(error).__name__}"
            raise LanguageModelError(what) from error

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        cache: Any = None,
        *,
        keep: int = 1,
        hidden: bool = False,
    ) -> Any:
        """One pass.

        Args:
            ids: of shape (rows, tokens).
            mask: of shape (rows, cached tokens + tokens), 0 on padding.
            cache: of the earlier tokens.
            keep: how many of the last tokens logits are wanted for; there may be more.
            hidden: whether the hidden states of all layers are wanted.

        Raises:
            DeadlineExceededError: nobody waits for it any more.
            LanguageModelError: the pass failed.
            torch.OutOfMemoryError: the batch is too large for the device.
        """
        options: dict[str, Any] = {"output_hidden_states": True} if hidden else {}
        if self._takes_positions:
            options["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        if self._takes_keep:
            options["logits_to_keep"] = keep
        with self._running():
            return self.model(
                input_ids=ids,
                attention_mask=mask,
                past_key_values=cache,
                use_cache=True,
                return_dict=True,
                **options,
            )

    def generate(
        self, batch: Batch, tokens: int, choose: Callable[..., Any], ended: Callable[..., Any]
    ) -> Batch:
        """Let transformers generate.

        Args:
            batch: what was read; its cache grows.
            tokens: the most to add.
            choose: a `LogitsProcessor`.
            ended: a `StoppingCriteria`.

        Returns:
            The batch with its new tokens.
        """
        import torch
        from transformers import GenerationConfig

        ids, mask, cache = batch
        with self._running():
            made = self.model.generate(
                ids,
                attention_mask=mask,
                past_key_values=cache,
                generation_config=GenerationConfig(
                    max_new_tokens=tokens,
                    pad_token_id=0,
                    return_dict_in_generate=True,
                ),
                logits_processor=[choose],
                stopping_criteria=[ended],
            )
            new = made.sequences.shape[1] - mask.shape[1]
            mask = torch.cat([mask, mask.new_ones(len(mask), new)], dim=-1)
        return made.sequences, mask, made.past_key_values

    def read(self, rows: Sequence[Sequence[int]], *, whole: bool = False) -> Batch:
        """Lay out prompts, padded on the left, and read once what they repeat.

        The cache has equal prompts without their last token, or the common beginning of all.
        Padding lies behind that beginning, so that a network that counts the slots of its
        cache instead of taking positions must read prompts of unequal length whole.

        Args:
            rows: token ids of each prompt.
            whole: whether the last token is all that is left to read, also where nothing repeats.
        """
        unique: list[tuple[int, ...]] = list(dict.fromkeys(map(tuple, rows)))
        repeats = len(unique) < len(rows) or whole
        shared = self._shared_tokens(unique, repeats=repeats)
        ids, mask = padded([row[shared:] for row in unique], self.device)
        if not shared and not (repeats and self._joins):
            return (*padded(rows, self.device), None)
        import torch

        beginning = torch.tensor(unique[0][:shared], device=self.device).expand(len(unique), -1)
        ids = torch.cat([beginning.long(), ids], dim=-1)
        mask = torch.cat([torch.ones_like(beginning), mask], dim=-1).long()
        cache = None
        if shared:
            cache = self.forward(ids[:1, :shared], mask[:1, :shared]).past_key_values
            if not self._can_join(cache):
                return self.read(rows, whole=whole)
            with torch.inference_mode():
                cache.batch_repeat_interleave(len(unique))
        if repeats:
            if ids.shape[1] - 1 > shared:
                cache = self.forward(ids[:, shared:-1], mask[:, :-1], cache).past_key_values
                if not self._can_join(cache):
                    return self.read(rows, whole=whole)
            order = torch.tensor([unique.index(tuple(row)) for row in rows])
            if cache is not None:
                with torch.inference_mode():
                    cache.batch_select_indices(order)
            ids, mask = ids[order], mask[order]
        return ids, mask, cache

    def _shared_tokens(self, rows: Sequence[tuple[int, ...]], *, repeats: bool) -> int:
        """Return how many tokens all rows begin with, if they are worth being read apart."""
        if not self._joins:
            return 0
        if len(rows) == 1:
            return len(rows[0]) - 1 if repeats else 0
        first, last = min(rows), max(rows)
        most = min(map(len, rows)) - 1
        shared = next((n for n in range(most) if first[n] != last[n]), most)
        may_share = self._takes_positions or len(set(map(len, rows))) == 1
        return shared if shared >= _LEAST_SHARED and may_share else 0

    def _can_join(self, cache: Any) -> bool:
        """Note whether every layer keeps all keys and values, whatever their age."""
        from transformers.cache_utils import DynamicLayer

        layers: Sequence[Any] = getattr(cache, "layers", ())
        self._joins = len(layers) > 0 and all(type(layer) is DynamicLayer for layer in layers)
        return self._joins

    def continuation_logprobs(
        self, prompts: Sequence[Sequence[int]], continuations: Sequence[tuple[int, Sequence[int]]]
    ) -> list[float]:
        """Natural-log probability of every continuation, its tokens multiplied.

        Args:
            prompts: token ids, each read once.
            continuations: pairs of a prompt's number and the token ids that follow it.
        """
        import torch

        fed, fed_mask = padded([tail for _, tail in continuations], self.device, "right")
        width = fed.shape[1]
        rows = [prompts[owner] for owner, _ in continuations]
        ids, mask, cache = self.read(rows, whole=True)
        ids = torch.cat([ids, fed[:, :-1]], dim=-1)
        mask = torch.cat([mask, fed_mask[:, :-1]], dim=-1)
        seen = 0 if cache is None else cache.get_seq_length()
        output = self.forward(ids[:, seen:], mask, cache, keep=width)
        with torch.inference_mode():
            # In at least float32, in which log-probabilities are taken.
            logits = output.logits[:, -width:]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            chosen = logits.gather(-1, fed[..., None])[..., 0] - logits.logsumexp(-1)
            sums: list[float] = (chosen * fed_mask).sum(-1).tolist()
        return sums

    def last_hidden_states(
        self,
        prompts: Sequence[Sequence[int]],
        layer: int,
    ) -> list[NDArray[np.float32]]:
        """The hidden state of each prompt's last token after `layer` layers, shape (width,)."""
        import torch

        output = self.forward(*padded(prompts, self.device), hidden=True)
        with torch.inference_mode():
            rows: NDArray[np.float32] = output.hidden_states[layer][:, -1].float().cpu().numpy()
        return list(rows)


def padded(
    rows: Sequence[Sequence[int]],
    device: torch.device,
    side: Literal["left", "right"] = "left",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask of shape (rows, longest), padded on one side.

    The padding id is 0: it is masked out, so any id of the vocabulary serves, and
    models without a padding token need none.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    both = ids, list(map(torch.ones_like, ids))
    whole = (pad_sequence(one, batch_first=True, padding_side=side) for one in both)
    given, mask = (one.to(device) for one in whole)
    return given, mask


def run_in_batches(
    items: Sequence[Item], size: int, work: Callable[[Sequence[Item]], list[Result]], *, what: str
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
