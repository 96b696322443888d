"""Train the cross-encoder of question and passage: low-rank changes of ms-marco-MiniLM-L-12-v2.

    python -m tools.sufficiency.train_cross --pack DIR --faq DIR --mined FILE --out DIR --until TIME

`--mined` is the file of `tools.sufficiency.mine`. TIME is in seconds since 1970; the learning rate
falls over the last `--decay` seconds. Adapter and head are written into `--out`, and every few
minutes a checkpoint, from which a run that was ended continues. `tools.sufficiency.fit_cross` then
fits the mix.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn.utils import parametrize
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from knowgate.guard.model_files import reranker_folder
from tools.sufficiency.cross_pairs import Group, Groups
from tools.sufficiency.ms_marco import CONFIGURATION, ms_marco_weights

_MOST_PIECES = 176
_POOL = 600
_SECONDS_PER_CHECKPOINT = 240
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_CHANGE = ".parametrizations.weight.0."


class LowRank(nn.Module):
    """A weight with a trained change of low rank."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, columns) / columns**0.5)
        self.b = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return (weight.float() + self.b @ self.a).to(weight.dtype)


class CrossEncoder(nn.Module):
    """The reranker with low-rank changes from one layer on, and its head."""

    def __init__(self, rank: int, frozen: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        library: Any = Tokenizer.from_file(str(reranker_folder() / "tokenizer.json"))
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=library, pad_token="[PAD]")
        config = BertConfig(**CONFIGURATION, num_labels=1, attn_implementation="sdpa")
        model: Any = BertForSequenceClassification(config)
        model.load_state_dict({key: torch.from_numpy(v) for key, v in ms_marco_weights().items()})
        model.eval()
        model.requires_grad_(False)
        self.pooler = nn.Linear(384, 384)
        self.pooler.load_state_dict(model.bert.pooler.dense.state_dict())
        self.head = nn.Linear(384, 1)
        self.head.load_state_dict(model.classifier.state_dict())
        self.bert = model.bert.to(torch.bfloat16)
        for layer in list(self.bert.encoder.layer)[frozen:]:
            for module in list(layer.modules()):
                if isinstance(module, nn.Linear):
                    change = LowRank(module.out_features, module.in_features, rank)
                    parametrize.register_parametrization(module, "weight", change)

    def trained(self) -> list[nn.Parameter]:
        """What is trained."""
        return [one for one in self.parameters() if one.requires_grad]

    def save(self, folder: Path) -> None:
        """Write the adapter in peft's format, and the head."""
        adapter, rank, layers, targets = {}, 0, set(), set()
        for name, value in self.bert.named_parameters():
            if _CHANGE in name:
                module, part = name.split(_CHANGE)
                key = f"base_model.model.{module}.lora_{part.upper()}.weight"
                adapter[key] = value.detach().half().contiguous()
                rank = min(value.shape)
                layers.add(int(module.split(".")[2]))
                targets.add(module.rsplit(".", 1)[1])
        head = {"pooler.dense": self.pooler, "classifier": self.head}
        save_file(adapter, folder / "adapter_model.safetensors")
        save_file(
            {
                f"{name}.{key}": value.half()
                for name, module in head.items()
                for key, value in module.state_dict().items()
            },
            folder / "head.safetensors",
        )
        config = {
            "peft_type": "LORA",
            "base_model_name_or_path": "cross-encoder/ms-marco-MiniLM-L-12-v2",
            "r": rank,
            "lora_alpha": rank,
            "bias": "none",
            "layers_pattern": "layer",
            "layers_to_transform": sorted(layers),
            "target_modules": sorted(targets),
        }
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")

    def forward(self, questions: list[str], passages: list[str]) -> torch.Tensor:
        """One log-odds per pair."""
        tokens = self.tokenizer(
            questions,
            passages,
            truncation="only_second",
            max_length=_MOST_PIECES,
            padding=True,
            return_token_type_ids=True,
            return_tensors="pt",
        )
        states = self.bert(**tokens).last_hidden_state[:, 0].float()
        found: torch.Tensor = self.head(torch.tanh(self.pooler(states)))[:, 0]
        return found


def batches(groups: Groups, seed: int, pairs: int) -> Iterator[list[Group]]:
    """Batches of questions whose passages are of about one length."""
    rng = np.random.default_rng(seed)
    waiting: list[Group] = []

    def cut() -> Iterator[list[Group]]:
        waiting.sort(key=lambda one: max(map(len, one.passages)) + len(one.question))
        found: list[list[Group]] = [[]]
        for one in waiting:
            if sum(len(other.passages) for other in found[-1]) + len(one.passages) > pairs:
                found.append([])
            found[-1].append(one)
        for place in rng.permutation(len(found)):
            yield found[place]
        waiting.clear()

    for one in groups.one_pass(seed):
        waiting.append(one)
        if len(waiting) == _POOL:
            yield from cut()
    yield from cut()


def loss_of(logits: torch.Tensor, batch: list[Group]) -> torch.Tensor:
    """Cross-entropy of each pair, both labels with one weight, and of each question's order."""
    labels = torch.tensor([float(label) for one in batch for label in one.labels])
    each = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    weights = torch.where(labels > 0, 1.6, 0.75)
    total = (each * weights).mean()
    orders, start = [], 0
    for one in batch:
        rows = logits[start : start + len(one.labels)]
        start += len(one.labels)
        if one.labels[0] and len(rows) > 1:
            orders.append(nn.functional.cross_entropy(rows[None], torch.tensor([0])))
    return total + 0.3 * torch.stack(orders).mean() if orders else total


@dataclass
class _Progress:
    """How far a run has come: passes over the questions, batches of this one, pairs in all."""

    epoch: int = 0
    done: int = 0
    pairs: int = 0


def train(given: argparse.Namespace) -> None:
    """Train until the time is over, with a checkpoint every few minutes."""
    given.out.mkdir(parents=True, exist_ok=True)
    model = CrossEncoder(given.rank, given.frozen)
    trained = model.trained()
    print(f"{sum(one.numel() for one in trained)} weights", flush=True)
    optimizer = torch.optim.AdamW(trained, lr=given.rate, weight_decay=0.01)
    at = _restored(given.out, trained, optimizer)
    groups = Groups(given.pack, given.faq, given.mined)
    recent: deque[tuple[float, float]] = deque(maxlen=100)
    saved = time.time()
    while True:
        for place, batch in enumerate(batches(groups, at.epoch, given.batch)):
            if place < at.done:
                continue
            left = given.until - time.time()
            share = min(1.0, (at.pairs + 1) / given.warm_up, max(0.02, left / given.decay))
            for group in optimizer.param_groups:
                group["lr"] = given.rate * share
            recent.append(_step(model, optimizer, batch))
            at.done, at.pairs = place + 1, at.pairs + sum(len(one.passages) for one in batch)
            if at.done % 50 == 0:
                print(f"{at.pairs} pairs, {np.mean(recent, axis=0).round(3)}", flush=True)
            if time.time() - saved > _SECONDS_PER_CHECKPOINT or left < 0:
                saved = time.time()
                _save_checkpoint(given.out, trained, optimizer, at)
                model.save(given.out)
            if left < 0:
                return
        at.epoch, at.done = at.epoch + 1, 0


def _step(
    model: CrossEncoder, optimizer: torch.optim.Optimizer, batch: list[Group]
) -> tuple[float, float]:
    """One step; the loss, and the share of pairs on the right side of 0."""
    questions = [one.question for one in batch for _ in one.passages]
    logits = model(questions, [text for one in batch for text in one.passages])
    loss: Any = loss_of(logits, batch)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.trained(), 1.0)
    optimizer.step()
    labels = [label for one in batch for label in one.labels]
    right = np.mean((logits.detach().numpy() > 0) == np.array(labels))
    return float(loss.detach()), float(right)


def _save_checkpoint(
    folder: Path, trained: list[nn.Parameter], optimizer: torch.optim.Optimizer, at: _Progress
) -> None:
    tensors = {f"{number}.weight": one.detach() for number, one in enumerate(trained)}
    for number, one in enumerate(trained):
        tensors |= {f"{number}.{name}": optimizer.state[one][name] for name in _MOMENTS}
    part = folder / "checkpoint.part"
    save_file(tensors, part, {"progress": json.dumps(vars(at))})
    part.replace(folder / "checkpoint.safetensors")


def _restored(
    folder: Path, trained: list[nn.Parameter], optimizer: torch.optim.Optimizer
) -> _Progress:
    """Go back to the checkpoint of a folder; without one, to the beginning."""
    path = folder / "checkpoint.safetensors"
    if not path.is_file():
        return _Progress()
    tensors = load_file(path)
    with torch.no_grad():
        for number, one in enumerate(trained):
            one.copy_(tensors[f"{number}.weight"])
            optimizer.state[one] = {name: tensors[f"{number}.{name}"] for name in _MOMENTS}
    with safe_open(path, "pt") as opened:
        return _Progress(**json.loads(opened.metadata()["progress"]))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a cross-encoder.")
    for name in ("pack", "faq", "mined", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--frozen", type=int, default=6)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--warm-up", type=int, default=3000)
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("--decay", type=float, default=1200)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _parsed()
    torch.set_num_threads(arguments.threads)
    train(arguments)
