"""Train the cross-encoder of question and passage: low-rank changes of ms-marco-MiniLM-L-12-v2.

    python -m tools.sufficiency.train_cross --pack DIR --faq DIR --mined FILE \\
        --documentation FILE --out DIR --until TIME [--device cuda --workers 14]

`--mined` is the file of `tools.sufficiency.mine`, `--documentation` that of
`tools.sufficiency.documentation`. TIME is in seconds since 1970; the learning rate falls over the
last `--decay` seconds. Adapter and head are written into `--out`, and every few minutes a
checkpoint, from which a run that was ended continues. `tools.sufficiency.fit_cross` then fits the
mix.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
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
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from knowgate.guard.model_files import reranker_folder
from tools.sufficiency.cross_pairs import Group, Groups
from tools.sufficiency.ms_marco import CONFIGURATION, ms_marco_weights

_MOST_PIECES = 176
_POOL = 600
_SECONDS_PER_CHECKPOINT = 240
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_CHANGE = ".parametrizations.weight.0."


Tokens = dict[str, torch.Tensor]
# Of each question's passages.
Labels = list[tuple[int, ...]]


class LowRank(nn.Module):
    """A weight with a trained change of low rank."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, columns) / columns**0.5)
        self.b = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.b @ self.a).to(weight.dtype)


class CrossEncoder(nn.Module):
    """The reranker with low-rank changes from one layer on, and its head."""

    def __init__(self, rank: int, frozen: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        config = BertConfig(**CONFIGURATION, num_labels=1, attn_implementation="sdpa")
        model: Any = BertForSequenceClassification(config)
        model.load_state_dict({key: torch.from_numpy(v) for key, v in ms_marco_weights().items()})
        model.eval()
        model.requires_grad_(False)
        self.pooler = nn.Linear(384, 384)
        self.pooler.load_state_dict(model.bert.pooler.dense.state_dict())
        self.head = nn.Linear(384, 1)
        self.head.load_state_dict(model.classifier.state_dict())
        self.bert = model.bert
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
                adapter[key] = value.detach().cpu().half().contiguous()
                rank = min(value.shape)
                layers.add(int(module.split(".")[2]))
                targets.add(module.rsplit(".", 1)[1])
        head = {"pooler.dense": self.pooler, "classifier": self.head}
        save_file(adapter, folder / "adapter_model.safetensors")
        save_file(
            {
                f"{name}.{key}": value.cpu().half()
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

    def forward(self, tokens: Tokens) -> torch.Tensor:
        """One log-odds per pair."""
        states = self.bert(**tokens).last_hidden_state[:, 0].float()
        found: torch.Tensor = self.head(torch.tanh(self.pooler(states)))[:, 0]
        return found


class PairBatches(IterableDataset[tuple[Tokens, Labels]]):
    """Batches of tokens and labels, without end; each worker draws its own.

    Args:
        groups: of which they are made.
        pairs: in a batch.
        seed: another one draws others.
    """

    def __init__(self, groups: Groups, pairs: int, seed: int) -> None:
        self._groups, self._pairs, self._seed = groups, pairs, seed

    def __iter__(self) -> Iterator[tuple[Tokens, Labels]]:
        worker = get_worker_info()
        seed = 1000 * self._seed + (worker.id if worker else 0)
        tokenizer = reranker_tokenizer()
        while True:
            for batch in batches(self._groups, seed, self._pairs):
                yield tokenized(batch, tokenizer), [one.labels for one in batch]
            seed += 100


def reranker_tokenizer() -> Any:
    """The tokenizer of the reranker, as transformers calls it."""
    library: Any = Tokenizer.from_file(str(reranker_folder() / "tokenizer.json"))
    return PreTrainedTokenizerFast(tokenizer_object=library, pad_token="[PAD]")


def tokenized(batch: Sequence[Group], tokenizer: Any) -> Tokens:
    """The pairs of each question with its passages, as the model takes them."""
    found = tokenizer(
        [one.question for one in batch for _ in one.passages],
        [text for one in batch for text in one.passages],
        truncation="only_second",
        max_length=_MOST_PIECES,
        padding=True,
        return_token_type_ids=True,
        return_tensors="pt",
    )
    return dict(found)


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


def loss_of(logits: torch.Tensor, labels: Labels) -> torch.Tensor:
    """Cross-entropy of each pair, both labels with one weight, and of each question's order."""
    given = torch.tensor([float(label) for one in labels for label in one], device=logits.device)
    each = nn.functional.binary_cross_entropy_with_logits(logits, given, reduction="none")
    total = (each * torch.where(given > 0, 1.6, 0.75)).mean()
    widest = max(map(len, labels))
    places, start = [], 0
    for one in labels:
        if one[0] and len(one) > 1:
            places.append([start + at if at < len(one) else len(logits) for at in range(widest)])
        start += len(one)
    if not places:
        return total
    padded = torch.cat([logits, logits.new_full((1,), -1e4)])
    rows = padded[torch.tensor(places, device=logits.device)]
    return total - 0.3 * rows.log_softmax(dim=1)[:, 0].mean()


@dataclass
class _Progress:
    """How far a run has come: batches and pairs."""

    batches: int = 0
    pairs: int = 0


def train(given: argparse.Namespace) -> None:
    """Train until the time is over, with a checkpoint every few minutes."""
    given.out.mkdir(parents=True, exist_ok=True)
    model = CrossEncoder(given.rank, given.frozen).to(given.device)
    trained = model.trained()
    print(f"{sum(one.numel() for one in trained)} weights", flush=True)
    optimizer = torch.optim.AdamW(trained, lr=given.rate, weight_decay=0.01)
    at = _restored(given.out, trained, optimizer)
    groups = Groups(given.pack, given.faq, given.mined, given.documentation)
    drawn = DataLoader(
        PairBatches(groups, given.batch, at.batches),
        batch_size=None,
        num_workers=given.workers,
        prefetch_factor=8,
    )
    recent: deque[torch.Tensor] = deque(maxlen=100)
    saved = time.time()
    for tokens, labels in drawn:
        left = given.until - time.time()
        share = min(1.0, (at.pairs + 1) / given.warm_up, max(0.02, left / given.decay))
        for group in optimizer.param_groups:
            group["lr"] = given.rate * share
        moved = {key: value.to(given.device, non_blocking=True) for key, value in tokens.items()}
        recent.append(_step(model, optimizer, moved, labels))
        at.batches, at.pairs = at.batches + 1, at.pairs + sum(map(len, labels))
        if at.batches % 50 == 0:
            shown = torch.stack(list(recent)).mean(dim=0).tolist()
            print(f"{at.pairs} pairs, {left:.0f} s left, {shown}", flush=True)
        if time.time() - saved > _SECONDS_PER_CHECKPOINT or left < 0:
            saved = time.time()
            _save_checkpoint(given.out, trained, optimizer, at)
            model.save(given.out)
        if left < 0:
            return


def _step(
    model: CrossEncoder, optimizer: torch.optim.Optimizer, tokens: Tokens, labels: Labels
) -> torch.Tensor:
    """One step; the loss, and the share of pairs on the right side of 0."""
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16):
        logits = model(tokens)
    logits = logits.float()
    loss: Any = loss_of(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.trained(), 1.0)
    optimizer.step()
    given = torch.tensor([label > 0 for one in labels for label in one], device=device)
    return torch.stack([loss.detach(), ((logits.detach() > 0) == given).float().mean()])


def _save_checkpoint(
    folder: Path, trained: list[nn.Parameter], optimizer: torch.optim.Optimizer, at: _Progress
) -> None:
    tensors = {f"{number}.weight": one.detach().cpu() for number, one in enumerate(trained)}
    for number, one in enumerate(trained):
        tensors |= {f"{number}.{name}": optimizer.state[one][name].cpu() for name in _MOMENTS}
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
            optimizer.state[one] = {
                name: tensors[f"{number}.{name}"].to("cpu" if name == "step" else one.device)
                for name in _MOMENTS
            }
    with safe_open(path, "pt") as opened:
        return _Progress(**json.loads(opened.metadata()["progress"]))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a cross-encoder.")
    for name in ("pack", "faq", "mined", "documentation", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--frozen", type=int, default=6)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--warm-up", type=int, default=3000)
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("--decay", type=float, default=1200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _parsed()
    torch.set_num_threads(arguments.threads)
    train(arguments)
