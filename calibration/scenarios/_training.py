"""From examples to an adapter folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...guard import InputError
from ...guard._optional_imports import optional_import
from ...guard.files import write_json
from ._adapter_folder import (
    SCHEMA,
    TRAINING_FILE,
    check_place,
    filled_at_once,
    finished_training,
    write_adapter,
)
from ._base_model import (
    TrainableModel,
    base_weights,
    trainable_model,
    training_device,
    weights_sha256,
)
from ._batches import pad_rows
from ._examples import PreferenceExample, TrainingExample, examples_sha256
from ._loop import run_epochs
from ._objectives import preference_loss, reply_logprobs
from ._report import ScenarioTrainingReport
from ._settings import ScenarioTrainingSettings
from ._target_tokens import TargetTokens, TokenRow

Progress = Callable[[int, int], None]
_Trainer = Callable[[TrainableModel, list[tuple[TokenRow, ...]]], list[float]]


def check_training(out: str | Path, settings: ScenarioTrainingSettings) -> None:
    """Raise what a training would raise at once: for callers with long work before it.

    Raises:
        InputError: `out` is there and not an empty folder.
        DeviceError: the device is not there; 4-bit weights without CUDA.
        MissingDependencyError: bitsandbytes, where 4-bit weights are asked for.
    """
    training_device(settings)
    check_place(Path(out))


def train_scenarios(
    model_path: str | Path,
    examples: Sequence[TrainingExample],
    out: str | Path,
    *,
    settings: ScenarioTrainingSettings | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> ScenarioTrainingReport:
    """Train a LoRA adapter on the replies that are wanted.

    The loss is on the replies' tokens and their end token only. The same examples,
    settings, seed, versions and thread count give the same adapter.

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
    chosen = settings or ScenarioTrainingSettings()

    def train(base: TrainableModel, rows: list[tuple[TokenRow, ...]]) -> list[float]:
        device = base.model.device

        def loss_of(numbers: Sequence[int]) -> Any:
            batch = pad_rows([rows[number][0] for number in numbers], device)
            return -reply_logprobs(base.model, batch).sum()

        return run_epochs(
            base.model,
            [len(row.ids) for (row,) in rows],
            loss_of,
            lambda numbers: sum(rows[number][0].targets for number in numbers),
            chosen,
            seed=seed,
            on_progress=on_progress,
        )

    texts = [(example.prompt, (example.target,)) for example in examples]
    identity = _identity("supervised", examples_sha256(examples), chosen, seed)
    return _train(Path(model_path), texts, Path(out), identity, chosen, seed, train)


def train_preferences(
    model_path: str | Path,
    examples: Sequence[PreferenceExample],
    out: str | Path,
    *,
    settings: ScenarioTrainingSettings | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> ScenarioTrainingReport:
    """Train a LoRA adapter to prefer one reply over another (DPO).

    The loss is `preference_loss` with the base model, its adapter off, as reference, plus
    `settings.chosen_weight` times the mean loss of the chosen reply's tokens.

    Args:
        model_path: as in `train_scenarios`, like all that follow and what is raised.
        examples: pairs of replies.
        out: folder to write.
        settings: UniKnow's by default.
        seed: of first weights and order.
        on_progress: called with steps done and steps in all.
    """
    chosen = settings or ScenarioTrainingSettings()

    def train(base: TrainableModel, rows: list[tuple[TokenRow, ...]]) -> list[float]:
        reference = _reference(base, rows, chosen)

        def loss_of(numbers: Sequence[int]) -> Any:
            pairs = [rows[number] for number in numbers]
            found = _pair_logprobs(base, pairs)
            anchors = reference[list(numbers)].to(found.device)
            loss = preference_loss(
                found[:, 0], found[:, 1], anchors[:, 0], anchors[:, 1], chosen.beta
            )
            if chosen.chosen_weight:
                sizes = found.new_tensor([pair[0].targets for pair in pairs])
                loss = loss - chosen.chosen_weight * found[:, 0] / sizes
            return loss.sum()

        return run_epochs(
            base.model,
            [max(len(row.ids) for row in pair) for pair in rows],
            loss_of,
            len,
            chosen,
            seed=seed,
            on_progress=on_progress,
        )

    texts = [(one.prompt, (one.chosen, one.rejected)) for one in examples]
    identity = _identity("preference", examples_sha256(examples), chosen, seed)
    return _train(Path(model_path), texts, Path(out), identity, chosen, seed, train)


def _pair_logprobs(base: TrainableModel, pairs: Sequence[tuple[TokenRow, ...]]) -> Any:
    """Log-probabilities of whole replies, shape (pairs, 2): chosen, rejected."""
    rows = [row for pair in pairs for row in pair]
    batch = pad_rows(rows, base.model.device)
    return reply_logprobs(base.model, batch).sum(1).view(-1, 2)


def _reference(
    base: TrainableModel, rows: list[tuple[TokenRow, ...]], settings: ScenarioTrainingSettings
) -> Any:
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


def _identity(
    objective: str, examples: str, settings: ScenarioTrainingSettings, seed: int
) -> dict[str, Any]:
    return {
        "objective": objective,
        "examples_sha256": examples,
        "settings": asdict(settings),
        "seed": seed,
    }


def _train(
    model_path: Path,
    texts: Sequence[tuple[str, tuple[str, ...]]],
    out: Path,
    identity: dict[str, Any],
    settings: ScenarioTrainingSettings,
    seed: int,
    train: _Trainer,
) -> ScenarioTrainingReport:
    """What both ways of training share: checks before, the folder after."""
    if not texts:
        raise InputError("there are none", where="examples", mend="give at least one")
    device = training_device(settings)
    base_sha256 = weights_sha256(base_weights(model_path))
    identity = {**identity, "base_sha256": base_sha256}
    if (stored := finished_training(out, identity)) is not None:
        return _report(out, identity, stored, reused=True)
    check_place(out)
    torch = optional_import("torch")
    started = time.monotonic()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        base = trainable_model(model_path, settings, device)
        rows = _encode(base, texts, settings)
        losses = train(base, rows)
    facts = {
        "examples": len(rows),
        "left_out": len(texts) - len(rows),
        "steps": settings.epochs * math.ceil(len(rows) / settings.batch_size),
        "losses": losses,
        "seconds": round(time.monotonic() - started, 1),
        "device": str(device),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "versions": {
            name: str(optional_import(name).__version__)
            for name in ("torch", "transformers", "peft")
        },
    }
    with filled_at_once(out.resolve()) as work:
        facts["adapter_sha256"] = write_adapter(base.model, work)
        stored = {"schema": SCHEMA, "identity": identity, **facts}
        write_json(work / TRAINING_FILE, stored)
    return _report(out, identity, stored, reused=False)


def _encode(
    base: TrainableModel,
    texts: Sequence[tuple[str, tuple[str, ...]]],
    settings: ScenarioTrainingSettings,
) -> list[tuple[TokenRow, ...]]:
    """Token rows of all examples that are not too long.

    Raises:
        InputError: an example is empty, or all are too long.
    """
    tokens = TargetTokens(base.tokenizer, base.end_ids)
    limits = [limit for limit in (settings.max_tokens, base.window) if limit is not None]
    rows = [tuple(tokens.encode(prompt, reply) for reply in replies) for prompt, replies in texts]
    if limits:
        rows = [row for row in rows if max(len(one.ids) for one in row) <= min(limits)]
    if not rows:
        raise InputError(
            f"all are longer than {min(limits)} tokens",
            where="examples",
            mend="shorten the contexts, or raise max_tokens",
        )
    return rows


def _report(
    out: Path, identity: dict[str, Any], stored: dict[str, Any], *, reused: bool
) -> ScenarioTrainingReport:
    return ScenarioTrainingReport(
        folder=out,
        objective=identity["objective"],
        examples=stored["examples"],
        left_out=stored["left_out"],
        steps=stored["steps"],
        losses=tuple(stored["losses"]),
        seconds=stored["seconds"],
        device=stored["device"],
        base_sha256=identity["base_sha256"],
        adapter_sha256=stored["adapter_sha256"],
        reused=reused,
    )
