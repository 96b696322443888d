"""Teach the microworld to a small Llama: `python -m tools.microworld.train`.

Everything is drawn from the seed, so the same versions on the same machine give the same weights,
unless `--minutes` ends the training early.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from knowgate.guard.errors import DeviceError, InputError, KnowgateError, ModelFolderError
from knowgate.guard.files import file_sha256
from knowgate.offline_eval.testbed import World
from knowgate.offline_eval.testbed.check import (
    MODEL_FOLDER,
    SHA256_FILE,
    WEIGHTS_FILE,
)
from tools.microworld._batches import (
    ANSWER,
    PAD,
    STOP,
    TEXT,
    Batch,
    build_tokenizer,
    encode_rows,
    tokenizer_config,
)
from tools.microworld._mixture import Mixture, Phase, load_mixture
from tools.microworld._tasks import TaskMaker
from tools.microworld.check import check_microworld
from tools.microworld.world import DEFAULT_SEED, build_world

if TYPE_CHECKING:
    from tokenizers import Tokenizer


CONTEXT_WINDOW = 512
_BFLOAT16_FROM = 192  # tokens; below, a CPU gains nothing from bfloat16
_FINAL_RATE = 0.03  # share of the learning rate that is left at the end
Report = Callable[[int, float], None]


def new_model(vocabulary: int, *, pad: int, stop: int) -> Any:
    """An untrained causal LM of the Llama architecture, about a million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=CONTEXT_WINDOW,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=stop,
        pad_token_id=pad,
    )
    model: Any = LlamaForCausalLM(config)
    model.generation_config.do_sample = False
    return model


def train(
    world: World, mixture: Mixture, *, minutes: float | None, device: str, report: Report
) -> tuple[Any, Tokenizer, dict[str, Any]]:
    """Train from scratch.

    Args:
        world: whose taught facts are taught.
        mixture: what is seen, how often, and for how many steps.
        minutes: the schedule is compressed so that training ends by then; None for no limit.
        device: `cpu` or `cuda`.
        report: called after each step with the step's number and the loss on the answers.

    Returns:
        The model on the CPU, its tokenizer, and what happened (steps, seconds, final loss).
    """
    torch.manual_seed(mixture.seed)
    tokenizer = build_tokenizer()
    pad, stop = tokenizer.token_to_id(PAD), tokenizer.token_to_id(STOP)
    if pad is None or stop is None:
        raise ModelFolderError("the tokenizer lacks the padding or the stop token")
    model = new_model(tokenizer.get_vocab_size(), pad=pad, stop=stop).to(device)
    model.train()
    tasks = TaskMaker(world, mixture, Random(f"train/{mixture.seed}"))
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=mixture.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=mixture.weight_decay,
    )
    started, step, smooth = time.monotonic(), 0, 0.0
    while (progress := _progress(step, started, mixture, minutes)) < 1:
        for group in optimiser.param_groups:
            group["lr"] = mixture.learning_rate * _rate(progress, step, mixture)
        batches = _batches(tasks, mixture, mixture.phase_at(progress), tokenizer, pad)
        loss = _update(model, optimiser, batches, mixture, device)
        step += 1
        smooth = loss if step == 1 else 0.98 * smooth + 0.02 * loss
        report(step, smooth)
    ends = math.inf if minutes is None else started + 60 * minutes
    for loss in _cool_down(model, world, mixture, tokenizer, device, ends):
        step += 1
        smooth = 0.98 * smooth + 0.02 * loss
        report(step, smooth)
    facts = {"steps": step, "seconds": round(time.monotonic() - started, 1), "answer_loss": smooth}
    return model.eval().to("cpu"), tokenizer, facts


def _cool_down(
    model: Any, world: World, mixture: Mixture, tokenizer: Tokenizer, device: str, ends: float
) -> Iterator[float]:
    """Take the steps of the last stage and yield the loss of each.

    The stage has randomness and an optimiser of its own, and ends early once the
    monotonic clock has passed `ends`.
    """
    settings = mixture.cool_down
    mixture = mixture.model_copy(update={"closed_book": settings.closed_book})
    torch.manual_seed(mixture.seed + 1)
    tasks = TaskMaker(world, mixture, Random(f"cool-down/{mixture.seed}"))
    phase = mixture.phase[-1].model_copy(update={"instructed": 0.0})
    pad = int(tokenizer.token_to_id(PAD) or 0)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=mixture.weight_decay
    )
    model.train()
    for number in range(settings.steps):
        if time.monotonic() > ends:
            break
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / settings.steps)
        batches = _batches(tasks, mixture, phase, tokenizer, pad)
        yield _update(model, optimiser, batches, mixture, device)


def save(folder: Path, model: Any, tokenizer: Tokenizer) -> None:
    """Write weights, configuration and tokenizer into an existing folder."""
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer_config(CONTEXT_WINDOW), indent=2) + "\n", encoding="utf-8"
    )
    for path in folder.iterdir():
        path.chmod(0o644)  # the weights are written for their owner only


def write(
    out: Path,
    model: Any,
    tokenizer: Tokenizer,
    mixture: Mixture,
    device: str,
    facts: dict[str, Any],
    *,
    check: bool = True,
) -> None:
    """Check the model and put it in place with its manifest; a failure leaves `out` as it was."""
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        made.chmod(0o755)
        save(made, model, tokenizer)
        result = (
            check_microworld(model_path=made, world=build_world(DEFAULT_SEED)).to_json()
            if check
            else {}
        )
        manifest = _manifest(made, mixture, device, facts, result)
        weights = file_sha256(made / WEIGHTS_FILE)
        (made / SHA256_FILE).write_text(f"{weights}  {WEIGHTS_FILE}\n", encoding="utf-8")
        (made / "training.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        _publish(made, out)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _progress(step: int, started: float, mixture: Mixture, minutes: float | None) -> float:
    by_steps = step / mixture.steps
    if minutes is None:
        return by_steps
    # The cool-down takes its share of the time.
    share = mixture.steps / (mixture.steps + mixture.cool_down.steps)
    return max(by_steps, (time.monotonic() - started) / (60 * minutes * share))


def _rate(progress: float, step: int, mixture: Mixture) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return min(1.0, (step + 1) / mixture.warm_up) * (_FINAL_RATE + (1 - _FINAL_RATE) * cosine)


def _batches(
    tasks: TaskMaker, mixture: Mixture, phase: Phase, tokenizer: Tokenizer, pad: int
) -> list[Batch]:
    """One batch of rows without and one or more of rows with a context, alike in length."""
    closed = [tasks.closed_book_row() for _ in range(mixture.closed_book.rows)]
    open_ = [tasks.context_row(phase) for _ in range(phase.rows)]
    # Rows of two or three passages would pad all others to their length.
    open_.sort(key=lambda row: len(row.text))
    half = len(open_) // 2
    groups = [closed, open_] if len(phase.passages) == 1 else [closed, open_[:half], open_[half:]]
    return [encode_rows(rows, tokenizer, window=CONTEXT_WINDOW, pad=pad) for rows in groups if rows]


def _update(
    model: Any, optimiser: Any, batches: list[Batch], mixture: Mixture, device: str
) -> float:
    """One step of the optimiser; returns the mean loss on the answers' tokens."""
    loss = _step(model, batches, mixture, device)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss


def _step(model: Any, batches: list[Batch], mixture: Mixture, device: str) -> float:
    """Back-propagate one step; returns the mean loss on the answers' tokens."""
    answers = sum(int((batch.roles[:, 1:] == ANSWER).sum()) for batch in batches)
    total = 0.0
    for batch in batches:
        tokens, roles = batch.tokens.to(device), batch.roles[:, 1:].to(device)
        short = device == "cpu" and tokens.shape[1] < _BFLOAT16_FROM
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not short):
            hidden = model.model(input_ids=tokens).last_hidden_state[:, :-1].float()
        chance = torch.rand(batch.roles[:, 1:].shape).to(device)
        text = (roles == TEXT) & (chance < mixture.text_positions)
        # Logits only where there is a loss: most of the cost of a large vocabulary is saved.
        wanted = (roles == ANSWER) | text
        logits = model.lm_head(hidden[wanted])
        losses = torch.nn.functional.cross_entropy(logits, tokens[:, 1:][wanted], reduction="none")
        on_answer = roles[wanted] == ANSWER
        answer_loss = losses[on_answer].sum() / answers
        text_loss = losses[~on_answer].sum() / max(1, int(text.sum())) / len(batches)
        torch.autograd.backward(answer_loss + mixture.text_loss * text_loss)
        total += float(answer_loss.detach())
    return total


def _manifest(
    folder: Path, mixture: Mixture, device: str, facts: dict[str, Any], check: dict[str, Any]
) -> dict[str, Any]:
    import tokenizers
    import transformers

    return {
        "schema": 1,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "device": device,
        "threads": torch.get_num_threads(),
        "world_seed": DEFAULT_SEED,
        **facts,
        "mixture": mixture.model_dump(mode="json"),
        "check": check,
        "sha256": {
            path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.is_file()
        },
    }


def _publish(made: Path, out: Path) -> None:
    """Put the finished folder in place of an older one; never a mixture of the two."""
    old = out.with_name(out.name + ".old")
    if old.exists():
        shutil.rmtree(old)
    if out.exists():
        os.replace(out, old)
    os.replace(made, out)
    if old.exists():
        shutil.rmtree(old)


def main(
    *,
    out: Annotated[Path, typer.Option(help="Model folder; replaced as a whole.")] = MODEL_FOLDER,
    seed: Annotated[int | None, typer.Option(help="The mixture's by default.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The mixture's by default.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="End by then.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    check: Annotated[bool, typer.Option(help="Measure the behaviour at the end.")] = True,
) -> None:
    """Train the microworld's language model, check it, and write it with a manifest."""
    console = Console(stderr=True)
    torch.set_num_threads(threads)
    try:
        device = _device(device)
        _refuse_other_folder(out)
        mixture = load_mixture()
        changes = {"seed": seed, "steps": steps}
        given = {name: value for name, value in changes.items() if value is not None}
        _run(out, mixture.model_copy(update=given), minutes, device, console, check=check)
    except KnowgateError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None


def _device(wanted: str) -> str:
    there = torch.cuda.is_available()
    if wanted == "auto":
        return "cuda" if there else "cpu"
    if wanted == "cpu" or (wanted == "cuda" and there):
        return wanted
    raise DeviceError(
        f"device {wanted!r} was asked for, but "
        + ("only auto, cpu and cuda are known" if there else "there is no CUDA device here")
    )


def _refuse_other_folder(out: Path) -> None:
    """A folder that holds anything else than a model is not to be replaced."""
    empty = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not empty and not (out / "config.json").is_file():
        raise InputError("is not a model folder", where=str(out), hint="name a new folder")


def _run(
    out: Path,
    mixture: Mixture,
    minutes: float | None,
    device: str,
    console: Console,
    *,
    check: bool,
) -> None:
    world = build_world(DEFAULT_SEED)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        total = mixture.steps + mixture.cool_down.steps
        task = bar.add_task("training", total=total, loss=math.nan)

        def report(step: int, loss: float) -> None:
            bar.update(task, completed=step, loss=loss)

        model, tokenizer, facts = train(
            world, mixture, minutes=minutes, device=device, report=report
        )
    write(out, model, tokenizer, mixture, device, facts, check=check)
    console.print(f"{facts['steps']} steps in {facts['seconds']:.0f} s: {out}", markup=False)


if __name__ == "__main__":
    typer.run(main)
