"""Train a language model on what to do in each knowledge scenario.

LoRA adapters by supervised examples, or by preferred replies against rejected ones,
in peft's file format, with safetensors weights and a `training.json` that says what they were
made of.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.engine.causal_model import (
    choose_device,
    context_window,
    end_ids,
    load_causal,
    require_causal,
    weights_sha256,
)
from ...guard.engine.prompt_encoder import PromptEncoder
from ...guard.errors import DeviceError, InputError, KnowgateError, optional_import
from ...guard.files import new_folder, require_new_folder, write_json
from ...guard.read_models import CheckedSettings
from .encoder import (
    SCHEMA,
    TRAINING_FILE,
    finished_training,
    write_adapter,
)

if TYPE_CHECKING:
    from torch import Tensor

Progress = Callable[[int, int], None]
# Token ids of prompt and reply, the end token included, and how many of the last are the reply.
Row = tuple[tuple[int, ...], int]
# The rows of each example: of its reply, or of the chosen and the rejected one.
_Rows = Sequence[tuple[Row, ...]]
_CLIP = 1.0


_Count = Annotated[int, Field(strict=True, ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ScenarioTrainingSettings(CheckedSettings):
    """Settings of a training run; the defaults are UniKnow's.

    Attributes:
        rank: of the LoRA adapter, which sits on every linear layer but the output's.
        alpha: its `lora_alpha`; what is added is weighted alpha / rank.
        learning_rate: AdamW's peak, falling linearly to 0.
        warm_up: share of the steps over which it rises first, in [0, 1).
        weight_decay: AdamW's.
        batch_size: examples per step.
        epochs: times that every example is seen.
        most_steps: training ends after that many steps of the optimiser; None for all epochs.
        beta: of the preference objective: how much a step away from the base model costs.
        max_tokens: longer examples are left out, and counted; None for the model's window.
        device: `auto` (CUDA when there), `cpu`, `cuda` or `cuda:N`.
        dtype: of the frozen weights: `auto` (bfloat16 on CUDA devices that have it, float32
            elsewhere), `float32` or `bfloat16`.
        chat_template: whether prompts are wrapped by the chat template of a model that has one.

    Raises:
        InputError: a value is out of its range.
    """

    rank: _Count = 4
    alpha: _Count = 16
    learning_rate: _Positive = 1e-4
    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.03
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    batch_size: _Count = 16
    epochs: _Count = 3
    most_steps: _Count | None = None
    beta: _Positive = 0.1
    max_tokens: _Count | None = None
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    chat_template: bool = True

    def steps(self, examples: int) -> int:
        """Return how many steps of the optimiser a training on so many examples takes."""
        steps = self.epochs * math.ceil(examples / self.batch_size)
        return steps if self.most_steps is None else min(steps, self.most_steps)

    @classmethod
    def for_embedded(cls, *, preferences: bool = False) -> ScenarioTrainingSettings:
        """Settings for the embedded model of a million parameters.

        The rate was chosen on facts held out of the training half, where 5e-3 does worse and
        7e-4 as well; two epochs were chosen for their cost. `preferences`, examples with a
        rejected reply, need fewer and smaller steps.
        """
        rate, epochs = (1e-3, 1) if preferences else (2e-3, 2)
        return cls(rank=16, alpha=32, learning_rate=rate, epochs=epochs, device="cpu")


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt and the reply to learn.

    Attributes:
        prompt: as the model is asked later, without a chat template.
        target: the reply, without the white space before it and without an end token.
        rejected: the reply that tempts, where the other one is to be preferred to it.
    """

    prompt: str
    target: str
    rejected: str | None = None

    @property
    def replies(self) -> tuple[str, ...]:
        """The wanted reply, and the rejected one."""
        return (self.target,) if self.rejected is None else (self.target, self.rejected)


def examples_sha256(examples: Sequence[TrainingExample]) -> str:
    """Identifies the examples, their order included.

    >>> one = TrainingExample("Q: Who?\\nA:", "Ada")
    >>> examples_sha256([one]) == examples_sha256([one, one])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        texts = [example.prompt, *example.replies]
        digest.update(json.dumps(texts, ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


@checked_dataclass(frozen=True, slots=True)
class ScenarioTrainingReport:
    """A finished adapter.

    Attributes:
        folder: where it is: for peft, or for `HuggingFaceLM(base, adapter=folder)`.
        objective: `supervised` or `preference`.
        examples: trained on.
        left_out: examples that were too long.
        steps: of the optimiser.
        losses: mean loss of each epoch, measured while training.
        seconds: that training took.
        device: it ran on.
        base_sha256: of the base model's weight files, in name order as one stream.
        adapter_sha256: of the adapter's weight file.
        reused: whether the folder held this very adapter already, so that nothing was
            trained; the other figures are then those of its training.
    """

    folder: Path
    objective: str
    examples: int
    left_out: int
    steps: int
    losses: tuple[float, ...]
    seconds: float
    device: str
    base_sha256: str
    adapter_sha256: str
    reused: bool = False

    def __str__(self) -> str:
        first, last = self.losses[0], self.losses[-1]
        left_out = f", {self.left_out} too long" if self.left_out else ""
        loss = f"loss {first:.3f}"
        if len(self.losses) > 1:
            loss += f" in the first epoch, {last:.3f} in the last"
        return (
            f"{self.examples} examples{left_out}, {self.steps} steps in {self.seconds:.0f} s on "
            f"{self.device}: {loss}"
        )


def check_training(out: str | Path, settings: ScenarioTrainingSettings) -> None:
    """Raise what a training would raise at once: for callers with long work before it.

    Raises:
        InputError: `out` is there and not an empty folder.
        DeviceError: the device is not there.
    """
    _training_device(settings.device)
    require_new_folder(out)


def train_scenarios(
    model_path: str | Path,
    examples: Sequence[TrainingExample],
    out: str | Path,
    *,
    settings: ScenarioTrainingSettings | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> ScenarioTrainingReport:
    """Train a LoRA adapter on the replies that are wanted, or on preferred ones (DPO).

    The loss is on the replies' tokens and their end token only. For examples with a rejected
    reply it is `preference_loss` with the base model, its adapter off, as
    reference. The same examples, settings, seed, versions and thread count give the same adapter.

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
        DeviceError: the device is not there or too small.
        MissingDependencyError: peft is not installed.
        KnowgateError: the loss is NaN or infinite; nothing is written.
    """
    chosen, out = settings or ScenarioTrainingSettings(), Path(out)
    kinds = {one.rejected is None for one in examples}
    if len(kinds) != 1:
        raise InputError(
            "are of two kinds" if kinds else "there are none",
            where="examples",
            hint="train on one kind at a time" if kinds else "give at least one",
        )
    device = _training_device(chosen.device)
    identity: dict[str, Any] = {
        "objective": "supervised" if kinds == {True} else "preference",
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
            model, tokenizer = _trainable_model(Path(model_path), device, chosen)
            rows = _encode(model, tokenizer, examples, chosen)
            started = time.monotonic()
            stored = {
                "schema": SCHEMA,
                "identity": identity,
                "examples": len(rows),
                "left_out": len(examples) - len(rows),
                "steps": chosen.steps(len(rows)),
                "losses": _train(model, rows, chosen, seed, on_progress),
                "seconds": round(time.monotonic() - started, 1),
            }
            _write(model, out, stored)
    return ScenarioTrainingReport(**{**stored, **identity, "folder": out, "reused": reused})


def encode_reply(
    encoder: PromptEncoder, tokenizer: Any, ends: Sequence[int], prompt: str, reply: str
) -> Row:
    """Token ids of a prompt, a reply behind it and its end.

    A prompt becomes one user message where the tokenizer has a chat template that is used,
    and stays as it is otherwise; then the reply follows after a space, unless the prompt ends with
    white space, and the model's end token closes it (a newline where it has none).

    Args:
        encoder: of prompts, by the tokenizer.
        tokenizer: of the model.
        ends: tokens that end an answer, the usual one first; see `end_ids`.
        prompt: as the model is asked later.
        reply: to learn.

    Raises:
        InputError: the prompt or the reply is empty.
    """
    reply, end = reply.strip(), list(ends[:1]) or encoder.ids_of("\n")
    if not prompt or not reply:
        raise InputError("an empty prompt or reply", where="examples", hint="leave it out")
    rendered = encoder.render(prompt)
    [head] = encoder.encode([rendered])
    if not encoder.templated:
        gap = "" if prompt[-1].isspace() else " "
        tail = [*encoder.continuation(rendered, head, gap + reply), *end]
        return (*head, *tail), len(tail)
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
    answered: str = tokenizer.apply_chat_template(turns, tokenize=False)
    # Some templates write more into a finished answer than into one to be made.
    tail = encoder.ids_of(answered[len(rendered) :] if answered.startswith(rendered) else reply)
    last = next((at for at, token in enumerate(tail) if token in ends), None)
    tail = [*tail, *end] if last is None else tail[: last + 1]
    return (*head, *tail), len(tail)


# Rows are sorted by length within this many batches: wider saves padding, narrower mixes more.
_SORTED_TOGETHER = 8


def shuffled_batches(lengths: Sequence[int], size: int, seed: str) -> list[list[int]]:
    """Every row's number once, in batches of `size`; the last one made may be smaller.

    Args:
        lengths: tokens of each row.
        size: rows per batch.
        seed: decides which rows meet and in which order the batches come.
    """
    rng = Random(seed)
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), size * _SORTED_TOGETHER):
        window = sorted(order[start : start + size * _SORTED_TOGETHER], key=lambda at: lengths[at])
        batches += [window[at : at + size] for at in range(0, len(window), size)]
    rng.shuffle(batches)
    return batches


def _training_device(asked: str) -> Any:
    """The torch device to train on.

    Raises:
        DeviceError: it is not there.
    """
    device = choose_device(asked)
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"cannot train on {asked!r} — use 'auto', 'cpu' or 'cuda'")
    return device


def _trainable_model(
    folder: Path, device: Any, settings: ScenarioTrainingSettings
) -> tuple[Any, Any]:
    """Load a base model, put a fresh LoRA adapter on it, and return it with its tokenizer.

    Only the adapter is trained, in float32; the frozen weights have the precision of
    `settings.dtype`. Random numbers come from torch.

    Raises:
        ModelFolderError: the folder cannot be read as a causal LM with a tokenizer.
        DeviceError: the model does not fit on the device.
    """
    torch, peft = optional_import("torch"), optional_import("peft")
    wide = device.type == "cpu" or not torch.cuda.is_bf16_supported()
    named = settings.dtype
    if named == "auto":
        named = "float32" if wide else "bfloat16"
    model, tokenizer = load_causal(folder, getattr(torch, named), device)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
    )
    with warnings.catch_warnings():
        # peft sets `fan_in_fan_out` itself where a model's layers are the other way round.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)  # between the libraries
        grown = peft.get_peft_model(model, config)
    # Dropout stays off: a few epochs of a small adapter need none.
    return grown.eval(), tokenizer


def _encode(
    model: Any,
    tokenizer: Any,
    examples: Sequence[TrainingExample],
    settings: ScenarioTrainingSettings,
) -> _Rows:
    """Token rows of all examples that are not too long.

    Raises:
        InputError: an example is empty, or all are too long.
    """
    ends = end_ids(model, tokenizer)
    encoder = PromptEncoder(tokenizer, chat_template="auto" if settings.chat_template else False)
    rows = [
        tuple(encode_reply(encoder, tokenizer, ends, one.prompt, reply) for reply in one.replies)
        for one in examples
    ]
    known = (settings.max_tokens, context_window(model.config))
    limit = min((limit for limit in known if limit is not None), default=math.inf)
    rows = [row for row in rows if _longest(row) <= limit]
    if not rows:
        raise InputError(
            f"all are longer than {limit} tokens",
            where="examples",
            hint="shorten the contexts, or raise max_tokens",
        )
    return rows


def _longest(rows: Sequence[Row]) -> int:
    return max(len(ids) for ids, _ in rows)


def reply_logprobs(model: Any, rows: Sequence[Row]) -> Tensor:
    """Natural-log probability of every reply token, 0 elsewhere; shape (rows, longest reply).

    Rows are padded on the left, so that all replies end together.
    """
    torch = optional_import("torch")
    longest, kept = _longest(rows), max(size for _, size in rows) + 1
    ids, mask = torch.zeros(2, len(rows), longest, dtype=torch.long, device=model.device)
    padding = torch.zeros(len(rows), kept - 1, dtype=torch.bool, device=model.device)
    for number, (tokens, size) in enumerate(rows):
        ids[number, longest - len(tokens) :] = torch.tensor(tokens)
        mask[number, longest - len(tokens) :] = 1
        padding[number, : kept - 1 - size] = True
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    accepted = inspect.signature(inner.forward).parameters
    options: dict[str, Any] = {}
    if "position_ids" in accepted:
        options["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    if "logits_to_keep" in accepted:
        # Logits only where there is a loss: most of the memory of a large vocabulary is saved.
        options["logits_to_keep"] = kept
    output = model(input_ids=ids, attention_mask=mask, use_cache=False, **options)
    logits, wanted = output.logits[:, -kept:-1], ids[:, 1 - kept :]
    found = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1),
        wanted.flatten(),
        reduction="none",
    ).view(wanted.shape)
    result: Tensor = -found.masked_fill(padding, 0.0)
    return result


def preference_loss(
    chosen: Tensor, rejected: Tensor, base_chosen: Tensor, base_rejected: Tensor, *, beta: float
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


def learning_rate_share(step: int, steps: int, warm_up: float) -> float:
    """Share of the peak rate: a linear rise, then a linear fall towards 0.

    >>> [round(learning_rate_share(step, 4, 0.0), 2) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    rising = math.ceil(steps * warm_up)
    if step < rising:
        return (step + 1) / (rising + 1)
    return (steps - step) / max(1, steps - rising)


def _write(model: Any, out: Path, stored: dict[str, Any]) -> None:
    """Write the folder `out`, and into `stored` what its `training.json` says besides."""
    names = ("torch", "transformers", "peft")
    stored |= {
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": optional_import("torch").get_num_threads(),
        "versions": {name: str(optional_import(name).__version__) for name in names},
    }
    with new_folder(out, last=TRAINING_FILE) as work:
        stored["adapter_sha256"] = write_adapter(model, work)
        write_json(work / TRAINING_FILE, stored)


def _train(
    model: Any,
    rows: _Rows,
    settings: ScenarioTrainingSettings,
    seed: int,
    on_progress: Progress | None,
) -> list[float]:
    """Train the adapter of a model of peft in place; returns the mean loss of each epoch.

    The loop is our own. transformers' `Trainer` with this loss takes as many lines, seeds the
    random numbers of the whole process, and trains on the first GPU, or on all, whichever one was
    asked for; trl's trainers send telemetry.

    Raises:
        KnowgateError: a loss or a gradient is NaN or infinite.
        DeviceError: a batch does not fit into memory.
    """
    torch = optional_import("torch")
    base = None if len(rows[0]) == 1 else _of_base(model, rows, settings.batch_size)
    trained = [one for one in model.parameters() if one.requires_grad]
    rate = settings.learning_rate
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=settings.weight_decay)
    lengths = list(map(_longest, rows))
    batches = [
        (epoch, batch)
        for epoch in range(settings.epochs)
        for batch in shuffled_batches(lengths, settings.batch_size, f"order/{seed}/{epoch}")
    ][: settings.steps(len(lengths))]
    sums = [[0.0, 0.0] for _ in range(settings.epochs)]
    for done, (epoch, batch) in enumerate(batches):
        share = learning_rate_share(done, len(batches), settings.warm_up)
        for group in optimiser.param_groups:
            group["lr"] = rate * share
        chosen = [rows[number] for number in batch]
        weight = len(batch) if base is not None else sum(size for [(_, size)] in chosen)
        try:
            loss = _loss(model, chosen, None if base is None else base[batch], settings.beta)
            (loss / weight).backward()
        except torch.OutOfMemoryError as error:
            raise DeviceError(
                f"{len(batch)} examples do not fit into memory at one time — lower batch_size"
            ) from error
        summed = float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(trained, _CLIP)
        if not (math.isfinite(summed) and bool(torch.isfinite(norm))):
            raise KnowgateError(
                f"the loss is no number any more at step {done + 1} of {len(batches)} — "
                "use a lower learning rate"
            )
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        sums[epoch] = [sums[epoch][0] + summed, sums[epoch][1] + weight]
        if on_progress is not None:
            on_progress(done + 1, len(batches))
    return [total / weights for total, weights in sums if weights]


def _loss(model: Any, rows: _Rows, base: Tensor | None, beta: float) -> Any:
    """Summed loss of some examples: of the replies' tokens, or of pairs of replies."""
    if base is None:
        return -reply_logprobs(model, [row for [row] in rows]).sum()
    found = _pairs(model, rows)
    columns = (*found.unbind(1), *base.to(found.device).unbind(1))
    return preference_loss(*columns, beta=beta).sum()


def _pairs(model: Any, rows: _Rows) -> Any:
    """Log-probabilities of whole replies, shape (pairs, 2): chosen, rejected."""
    return reply_logprobs(model, [row for both in rows for row in both]).sum(1).view(-1, 2)


def _of_base(model: Any, rows: _Rows, size: int) -> Tensor:
    """`_pairs` of all examples under the base model; it does not change while training."""
    torch = optional_import("torch")
    order = sorted(range(len(rows)), key=lambda at: len(rows[at][0][0]))
    found: Tensor = torch.zeros(len(order), 2)
    with torch.no_grad(), model.disable_adapter():
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            found[numbers] = _pairs(model, [rows[number] for number in numbers]).cpu()
    return found
