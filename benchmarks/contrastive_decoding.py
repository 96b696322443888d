"""COIECD against its authors' program: the same tokens, and the time for each of them.

    python benchmarks/contrastive_decoding.py --peer DIR

DIR holds `decoding.py` of the public repository Stacy027/COIECD. Both sides decode the
same pairs of microworld prompts with the same weights in the same process, turn by turn
in chunks, so that a busy machine slows both. The authors' program also decodes both
streams alone for comparison; its time per token is given without that part.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import KnowgateError
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path

CHUNK = 50


def prompt_pairs(count: int) -> list[tuple[str, str]]:
    """Prompts with and without context; every second context contradicts the taught fact."""
    world = default_world()
    facts = Random(0).sample(world.facts, count)
    pairs: list[tuple[str, str]] = []
    for number, fact in enumerate(facts):
        questions = world.questions(fact)
        question = questions[number % len(questions)].text
        document = world.contradiction(fact) if number % 2 else world.document_for(fact)
        pairs.append(
            (
                World.prompt("with_context").format(context=document.text, question=question),
                World.prompt("closed_book").format(question=question),
            )
        )
    return pairs


def random_objects(dtype: str) -> tuple[Any, Any]:
    """A random Llama and a byte-level tokenizer, for machines without the trained model."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1, **{piece: 2 + at for at, piece in enumerate(alphabet)}}
    raw = Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=4096,
        initializer_range=0.15,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(getattr(torch, dtype)).eval(), tokenizer


class EndIds:
    """Equals every token that ends an answer, since the authors' loop compares with just one."""

    def __init__(self, ids: frozenset[int]) -> None:
        self._ids = ids

    def __eq__(self, other: object) -> bool:
        return int(other) in self._ids  # type: ignore[call-overload,no-any-return]

    __hash__ = None  # type: ignore[assignment]


class PeerTokenizer:
    """Hands the authors' loop our prompts in place of its own, and keeps the ids it decodes."""

    def __init__(self, tokenizer: Any, end_ids: frozenset[int], device: str) -> None:
        self._tokenizer, self._device = tokenizer, device
        self.eos_token_id = EndIds(end_ids)
        self.pair: tuple[str, str] = ("", "")
        self.ids: list[int] = []

    def __call__(self, batch: list[str], **_: Any) -> Any:
        from transformers import BatchEncoding

        rows = [torch.tensor(self._tokenizer(text)["input_ids"]) for text in self.pair]
        ids, mask = (
            pad_sequence(each, batch_first=True, padding_side="left").to(self._device)
            for each in (rows, [torch.ones_like(row) for row in rows])
        )
        return BatchEncoding({"input_ids": ids, "attention_mask": mask})

    def decode(self, ids: Any, **_: Any) -> str:
        self.ids = ids.tolist()
        return ""


def load_peer(folder: Path, tokenizer: PeerTokenizer, device: str) -> ModuleType:
    """The authors' module, with the globals that its main block would set."""
    spec = importlib.util.spec_from_file_location("coiecd_peer", folder / "decoding.py")
    if spec is None or spec.loader is None or not (folder / "decoding.py").is_file():
        sys.exit(f"{folder}: has no decoding.py — check out Stacy027/COIECD there")
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    peer.device, peer.tokenizer = device, tokenizer  # type: ignore[attr-defined]
    # Their stopwatch starts at the contrastive loop, like ours.
    peer.model_generate = lambda *_, **__: ""  # type: ignore[attr-defined]
    warnings.filterwarnings("ignore", message="Using a non-tuple sequence")
    return peer


def chunks(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for start in range(0, len(pairs), CHUNK):
        yield pairs[start : start + CHUNK]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True, help="folder with decoding.py")
    parser.add_argument("--model", help="model folder; the microworld's by default")
    parser.add_argument("--random", action="store_true", help="a random model instead")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64, help="rows, two per question")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--threads", type=int, help="CPU threads; torch's choice by default")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        if args.random:
            model, tokenizer = random_objects(args.dtype)
            lm = HuggingFaceLM.from_objects(model, tokenizer, batch_size=args.batch, stop=())
        else:
            lm = HuggingFaceLM(
                args.model or microworld_model_path(),
                device=args.device,
                dtype=args.dtype,
                batch_size=args.batch,
                stop=(),
            )
    except KnowgateError as error:
        sys.exit(str(error))
    compare(lm, args)


def compare(lm: HuggingFaceLM, args: argparse.Namespace) -> None:
    model, tokenizer = lm.engine.network.model, lm.engine.encoder._tokenizer
    wrapped = PeerTokenizer(tokenizer, frozenset({model.config.eos_token_id}), lm.device)
    peer = load_peer(args.peer, wrapped, lm.device)
    pairs = prompt_pairs(args.questions)
    seconds = dict.fromkeys(["peer", "batch 1", "batched"], 0.0)
    ids: dict[str, list[list[int]]] = {name: [] for name in seconds}

    def theirs(chunk: list[tuple[str, str]]) -> list[list[int]]:
        found = []
        for wrapped.pair in chunk:
            peer.model_answer(model, wrapped, "", "", args.tokens)
            found.append(wrapped.ids)
        return found

    def ours(chunk: list[tuple[str, str]]) -> list[list[int]]:
        render = lm.engine.encoder.render
        contextual, bare = ([render(text) for text in side] for side in zip(*chunk, strict=True))
        rule, settings = ("coiecd", 1.0, 0.25), lm.settings(max_new_tokens=args.tokens)
        return [one.ids for one in lm.engine.contrast(contextual, bare, rule, settings)]

    runs = {
        "peer": theirs,
        "batch 1": lambda chunk: [ours([pair])[0] for pair in chunk],
        "batched": ours,
    }
    for run in runs.values():  # caches and thread pools are warm before the clock starts
        run(pairs[:4])
    for chunk in chunks(pairs):
        for name, run in runs.items():
            start = time.perf_counter()
            ids[name] += run(chunk)
            seconds[name] += time.perf_counter() - start
    report(lm, ids, seconds)


def report(lm: HuggingFaceLM, ids: dict[str, list[list[int]]], seconds: dict[str, float]) -> None:
    print(f"{lm.name} on {lm.device} in {lm.dtype}: {len(ids['peer'])} questions")
    base = seconds["peer"] / sum(map(len, ids["peer"]))
    for name, rows in ids.items():
        per_token = seconds[name] / sum(map(len, rows))
        same = sum(a == b for a, b in zip(rows, ids["peer"], strict=True))
        print(
            f"{name:8}  {same}/{len(rows)} answers token for token as the peer's, "
            f"{sum(map(len, rows))} tokens, {per_token * 1e3:.3f} ms/token, "
            f"{base / per_token:.2f}x the peer's speed"
        )
        unequal = [pair for pair in zip(rows, ids["peer"], strict=True) if pair[0] != pair[1]]
        for found, expected in unequal[:5]:
            print(f"    {found} against {expected}")
    if len(set(map(tuple, ids["peer"]))) == 1:
        sys.exit("every answer is the same: this model shows nothing")
    if any(rows != ids["peer"] for rows in ids.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
