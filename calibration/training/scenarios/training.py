"""From examples to an adapter folder."""

from __future__ import annotations

import inspect
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....guard.engine.causal_model import require_causal, weights_sha256
from ....guard.errors import DeviceError, InputError, optional_import
from ....guard.files import file_sha256, new_folder, read_json, require_new_folder, write_json
from .._adapters import write_adapter
from ._base_model import (
    SCHEMA,
    TRAINING_FILE,
    TrainableModel,
    finished_training,
    trainable_model,
    training_device,
)
from ._batches import TargetTokens, TokenBatch, TokenRow, pad_rows, shuffled_batches
from .settings import (
    PreferenceExample,
    ScenarioTrainingReport,
    ScenarioTrainingSettings,
    TrainingDivergedError,
    TrainingExample,
    examples_sha256,
)

if TYPE_CHECKING:
    from torch import Tensor


def reply_logprobs(model: Any, batch: TokenBatch) -> Tensor:
    """Natural-log probability of every reply token, 0 elsewhere; shape (rows, longest reply)."""
    torch = optional_import("torch")
    kept = batch.targets.shape[1] + 1
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    accepted = inspect.signature(inner.forward).parameters
    options: dict[str, Any] = {}
    if "position_ids" in accepted:
        options["position_ids"] = (batch.mask.cumsum(1) - 1).clamp_min(0)
    if "logits_to_keep" in accepted:
        # Logits only where there is a loss: most of the memory of a large vocabulary is saved.
        options["logits_to_keep"] = kept
    logits = model(
        input_ids=batch.ids, attention_mask=batch.mask, use_cache=False, **options
    ).logits[:, -kept:-1]
    wanted = batch.ids[:, 1 - kept :]
    found = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), wanted.flatten(), reduction="none"
    ).view(wanted.shape)
    result: Tensor = -found.masked_fill(~batch.targets, 0.0)
    return result


def preference_loss(
    chosen: Tensor, rejected: Tensor, base_chosen: Tensor, base_rejected: Tensor, beta: float
) -> Tensor:
    """-log sigmoid(β·(Δpolicy − Δbase)) for every pair, Δ = chosen − rejected.

    Args:
        chosen: log-probabilities of the chosen replies, shape (pairs,).
        rejected: of the rejected ones.
        base_chosen: of the chosen ones under the base model.
        base_rejected: of the rejected ones under the base model.
        beta: β, above 0.

    Source: Rafailov et al. 2023, Direct Preference Optimization.
    """
    torch = optional_import("torch")
    margin = (chosen - rejected) - (base_chosen - base_rejected)
    loss: Tensor = -torch.nn.functional.logsigmoid(beta * margin)
    return loss


_CLIP = 1.0


def learning_rate_share(step: int, steps: int, warm_up: float) -> float:
    """Share of the peak rate: a linear rise, then a linear fall towards 0.

    >>> [round(learning_rate_share(step, 4, 0.0), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    rising = math.ceil(steps * warm_up)
    if step < rising:
        return (step + 1) / (rising + 1)
    return (steps - step) / max(1, steps - rising)


def run_epochs(
    model: Any,
    lengths: Sequence[int],
    loss: _Loss,
    settings: ScenarioTrainingSettings,
    *,
    seed: int,
    checkpoint: Checkpoint,
    on_progress: Callable[[int, int], None] | None,
) -> list[float]:
    """Train the adapter in place; returns the mean loss of each epoch.

    Args:
        model: whose trainable parameters move.
        lengths: tokens of each example.
        loss: summed loss of the examples with these numbers, and what it is divided by.
        settings: how.
        seed: of the order.
        checkpoint: where the state is stored, and where a killed training continues.
        on_progress: called with steps done and steps in all.

    Raises:
        TrainingDivergedError: a loss or a gradient is NaN or infinite.
        DeviceError: a batch does not fit into memory.
    """
    torch = optional_import("torch")
    loss_of, weight_of = loss
    trained = [one for one in model.parameters() if one.requires_grad]
    optimiser = torch.optim.AdamW(
        trained, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    batches = [
        (epoch, batch)
        for epoch in range(settings.epochs)
        for batch in shuffled_batches(lengths, settings.batch_size, f"order/{seed}/{epoch}")
    ][: settings.steps(len(lengths))]
    history = checkpoint.restore(trained, optimiser)
    for done, (_, batch) in enumerate(batches[len(history) :], start=len(history)):
        share = learning_rate_share(done, len(batches), settings.warm_up)
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * share
        weight = weight_of(batch)
        summed = _back_propagate(batch, loss_of, weight, settings.rows_at_once)
        norm = torch.nn.utils.clip_grad_norm_(trained, _CLIP)
        if not (math.isfinite(summed) and bool(torch.isfinite(norm))):
            raise TrainingDivergedError(
                f"the loss is no number any more at step {done + 1} of {len(batches)} — "
                "use a lower learning rate"
            )
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        history.append((summed, weight))
        checkpoint.save_when_due(trained, optimiser, history)
        if on_progress is not None:
            on_progress(done + 1, len(batches))
    return _epoch_means([epoch for epoch, _ in batches], history)


def _epoch_means(epochs: Sequence[int], history: Sequence[tuple[float, float]]) -> list[float]:
    """Return the mean loss of each epoch from the sums and weights of its steps."""
    sums: dict[int, tuple[float, float]] = {}
    for epoch, (loss, weight) in zip(epochs, history, strict=True):
        total, weights = sums.get(epoch, (0.0, 0.0))
        sums[epoch] = (total + loss, weights + weight)
    return [total / weights for total, weights in sums.values()]


def _back_propagate(
    batch: Sequence[int],
    loss_of: Callable[[Sequence[int]], Any],
    weight: float,
    rows_at_once: int | None,
) -> float:
    """Add a batch's gradients part by part; returns the summed loss."""
    torch = optional_import("torch")
    size = rows_at_once or len(batch)
    total = 0.0
    try:
        for start in range(0, len(batch), size):
            loss = loss_of(batch[start : start + size])
            (loss / weight).backward()
            total += float(loss.detach())
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{size} examples do not fit into memory at one time — lower rows_at_once, "
            "or use quantise"
        ) from error
    return total


Progress = Callable[[int, int], None]
_Rows = Sequence[tuple[TokenRow, ...]]
_Loss = tuple[Callable[[Sequence[int]], Any], Callable[[Sequence[int]], int]]
"""Summed loss of the examples of these numbers, and what it is divided by."""


def check_training(out: str | Path, settings: ScenarioTrainingSettings) -> None:
    """Raise what a training would raise at once: for callers with long work before it.

    Raises:
        InputError: `out` is there and not an empty folder.
        DeviceError: the device is not there; 4-bit weights without CUDA.
        MissingDependencyError: bitsandbytes, where 4-bit weights are asked for.
    """
    training_device(settings)
    require_new_folder(out)


def train_scenarios(
    model_path: str | Path,
    examples: Sequence[TrainingExample] | Sequence[PreferenceExample],
    out: str | Path,
    *,
    settings: ScenarioTrainingSettings | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> ScenarioTrainingReport:
    """Train a LoRA adapter on the replies that are wanted, or on preferred ones (DPO).

    For `TrainingExample` the loss is on the replies' tokens and their end token only. For
    `PreferenceExample` it is `preference_loss` with the base model, its adapter off, as
    reference. The same examples, settings, seed, versions and thread count give the same adapter;
    a training that was killed continues from what it stored beside `out` about once a minute.

    Args:
        model_path: folder of the base model, with safetensors weights.
        examples: what to learn, in any order.
        out: folder to write; new or empty, or one that holds the adapter of this very
            training, which is then not repeated.
        settings: UniKnow's by default.
        seed: of the adapter's first weights and the order of the examples.
        on_progress: called with steps done and steps in all.

    Raises:
        InputError: no examples, an empty one, all too long, or `out` holds something else.
        ModelFolderError: no model that can be trained.
        DeviceError: the device is not there or too small; 4-bit weights without CUDA.
        MissingDependencyError: peft, or bitsandbytes where 4-bit weights are asked for.
        TrainingDivergedError: the loss is NaN or infinite; nothing is written.
    """
    chosen, out = settings or ScenarioTrainingSettings(), Path(out)
    kinds = {type(one) for one in examples}
    if len(kinds) != 1:
        raise InputError(
            "are of two kinds" if kinds else "there are none",
            where="examples",
            hint="train on one kind at a time" if kinds else "give at least one",
        )
    device = training_device(chosen)
    identity: dict[str, Any] = {
        "objective": "preference" if kinds == {PreferenceExample} else "supervised",
        "examples_sha256": examples_sha256(examples),
        "settings": asdict(chosen),
        "seed": seed,
        "base_sha256": weights_sha256(require_causal(Path(model_path))),
    }
    stored = finished_training(out, identity)
    reused = stored is not None
    if stored is None:
        require_new_folder(out)
        torch = optional_import("torch")
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            base = trainable_model(Path(model_path), chosen, device)
            rows = _encode(base, examples, chosen)
            stored = _train(
                base, rows, len(examples) - len(rows), out, identity, chosen, on_progress
            )
    names = ("examples", "left_out", "steps", "seconds", "device", "adapter_sha256")
    return ScenarioTrainingReport(
        folder=out,
        objective=identity["objective"],
        losses=tuple(stored["losses"]),
        base_sha256=identity["base_sha256"],
        reused=reused,
        **{name: stored[name] for name in names},
    )


def _train(
    base: TrainableModel,
    rows: _Rows,
    left_out: int,
    out: Path,
    identity: dict[str, Any],
    settings: ScenarioTrainingSettings,
    on_progress: Progress | None,
) -> dict[str, Any]:
    """Train the adapter and write its folder; returns what `training.json` says."""
    torch, started = optional_import("torch"), time.monotonic()
    checkpoint = Checkpoint(out, identity)
    supervised = identity["objective"] == "supervised"
    loss = _reply_loss(base, rows) if supervised else _preference_loss(base, rows, settings)
    losses = run_epochs(
        base.model,
        [max(len(row.ids) for row in texts) for texts in rows],
        loss,
        settings,
        seed=identity["seed"],
        checkpoint=checkpoint,
        on_progress=on_progress,
    )
    stored = {
        "schema": SCHEMA,
        "identity": identity,
        "examples": len(rows),
        "left_out": left_out,
        "steps": settings.steps(len(rows)),
        "losses": losses,
        "seconds": round(time.monotonic() - started, 1),
        "device": str(base.model.device),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "versions": {
            name: str(optional_import(name).__version__)
            for name in ("torch", "transformers", "peft")
        },
    }
    with new_folder(out, last=TRAINING_FILE) as work:
        stored["adapter_sha256"] = write_adapter(base.model, work)
        write_json(work / TRAINING_FILE, stored)
    checkpoint.remove()
    return stored


def _reply_loss(base: TrainableModel, rows: _Rows) -> _Loss:
    """Sum of the loss of the replies' tokens, and how many tokens these are."""
    device = base.model.device

    def loss_of(numbers: Sequence[int]) -> Any:
        batch = pad_rows([rows[number][0] for number in numbers], device)
        return -reply_logprobs(base.model, batch).sum()

    return loss_of, lambda numbers: sum(rows[number][0].targets for number in numbers)


def _preference_loss(
    base: TrainableModel, rows: _Rows, settings: ScenarioTrainingSettings
) -> _Loss:
    """Sum of the loss of pairs of replies, and how many pairs these are."""
    reference = _reference(base, rows, settings)

    def loss_of(numbers: Sequence[int]) -> Any:
        pairs = [rows[number] for number in numbers]
        found = _pair_logprobs(base, pairs)
        anchors = reference[list(numbers)].to(found.device)
        loss = preference_loss(
            found[:, 0], found[:, 1], anchors[:, 0], anchors[:, 1], settings.beta
        )
        return loss.sum()

    return loss_of, len


def _pair_logprobs(base: TrainableModel, pairs: Sequence[tuple[TokenRow, ...]]) -> Any:
    """Log-probabilities of whole replies, shape (pairs, 2): chosen, rejected."""
    rows = [row for pair in pairs for row in pair]
    batch = pad_rows(rows, base.model.device)
    return reply_logprobs(base.model, batch).sum(1).view(-1, 2)


def _reference(base: TrainableModel, rows: _Rows, settings: ScenarioTrainingSettings) -> Any:
    """`_pair_logprobs` of all pairs under the base model; it does not change while training."""
    torch = optional_import("torch")
    size = settings.rows_at_once or settings.batch_size
    order = sorted(range(len(rows)), key=lambda at: len(rows[at][0].ids))
    found = torch.zeros(len(rows), 2)
    with torch.no_grad(), base.model.disable_adapter():
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            found[numbers] = _pair_logprobs(base, [rows[number] for number in numbers]).cpu()
    return found


def _encode(
    base: TrainableModel,
    examples: Sequence[TrainingExample] | Sequence[PreferenceExample],
    settings: ScenarioTrainingSettings,
) -> _Rows:
    """Token rows of all examples that are not too long.

    Raises:
        InputError: an example is empty, or all are too long.
    """
    tokens = TargetTokens(base.tokenizer, base.end_ids, chat_template=settings.chat_template)
    rows = [tuple(tokens.encode(one.prompt, reply) for reply in one.replies) for one in examples]
    limits = [limit for limit in (settings.max_tokens, base.window) if limit is not None]
    if limits:
        rows = [row for row in rows if max(len(one.ids) for one in row) <= min(limits)]
    if not rows:
        raise InputError(
            f"all are longer than {min(limits)} tokens",
            where="examples",
            hint="shorten the contexts, or raise max_tokens",
        )
    return rows


# Between two checkpoints of a training.
SECONDS = 60.0
_STATE = "state.json"
# A step's summed loss, and what it was divided by.
History = list[tuple[float, float]]


class Checkpoint:
    """Stores weights and optimiser of a training about once a minute, beside its folder.

    Args:
        out: folder that the training will write.
        identity: what makes a training this one; the state of another one is not used.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        self._folder = out.with_name(f".{out.name}.unfinished")
        self._identity = json.loads(json.dumps(identity))
        self._saved_at = time.monotonic()

    def restore(self, trained: Sequence[Any], optimiser: Any) -> History:
        """Load what a killed training stored; return its steps, none if it stored nothing."""
        try:
            state = read_json(self._folder / _STATE)
            path = self._folder / state["weights"]
            if state["identity"] != self._identity or file_sha256(path) != state["sha256"]:
                return []
        except (InputError, OSError, KeyError, TypeError):
            return []
        torch = optional_import("torch")
        tensors = optional_import("safetensors.torch").load_file(path)
        history = [(float(loss), float(weight)) for loss, weight in state["history"]]
        slots = {}
        for number, one in enumerate(trained):
            one.data.copy_(tensors[f"{number}.weight"])
            slots[number] = {
                "step": torch.tensor(float(len(history))),
                "exp_avg": tensors[f"{number}.exp_avg"],
                "exp_avg_sq": tensors[f"{number}.exp_avg_sq"],
            }
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": slots, "param_groups": groups})
        return history

    def save_when_due(self, trained: Sequence[Any], optimiser: Any, history: History) -> None:
        """Store the state if the last time was a minute ago."""
        if time.monotonic() - self._saved_at < SECONDS:
            return
        tensors = {}
        for number, one in enumerate(trained):
            slot = optimiser.state[one]
            tensors[f"{number}.weight"] = one.detach()
            tensors |= {f"{number}.{name}": slot[name] for name in ("exp_avg", "exp_avg_sq")}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"step_{len(history)}.safetensors"
        kept = {name: one.contiguous().cpu() for name, one in tensors.items()}
        path.write_bytes(optional_import("safetensors.torch").save(kept))
        state = {"identity": self._identity, "history": history, "weights": path.name}
        write_json(self._folder / _STATE, {**state, "sha256": file_sha256(path)})
        for other in self._folder.glob("step_*.safetensors"):
            if other != path:
                other.unlink()
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Remove the state: the training is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
