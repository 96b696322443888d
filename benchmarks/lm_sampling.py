"""Sampling n answers: `HuggingFaceLM.generate` against transformers' own `generate`.

    python benchmarks/lm_sampling.py

Same weights, same prompts, same temperature, stop string and number of samples, turn by
turn in one process. transformers repeats every prompt n times before it reads it
(`num_return_sequences`); ours reads it once. Ours always gives token log-probabilities;
transformers is timed without them and with them. The samples themselves differ, since the
random numbers do, so the time is given per generated token as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import torch

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import KnowgateError
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path

STOP = "\n"


def prompts_of(name: Any, count: int) -> list[str]:
    """Microworld prompts of one kind."""
    world = default_world()
    return [
        World.prompt(name).format(
            context=world.document_for(fact).text, question=world.questions(fact)[0].text
        )
        for fact in Random(1).sample(world.facts, count)
    ]


def random_lm(batch_size: int) -> HuggingFaceLM:
    """A random model, for machines without the trained one."""
    from contrastive_decoding import random_objects

    return HuggingFaceLM.from_objects(*random_objects("float32"), batch_size=batch_size)


def peer_run(
    lm: HuggingFaceLM, prompts: list[str], args: argparse.Namespace, *, logprobs: bool
) -> int:
    """transformers' generate over the prompts; the number of tokens it generated."""
    from torch.nn.utils.rnn import pad_sequence

    model, encoder = lm.engine.network.model, lm.engine.encoder
    rows = encoder.encode([encoder.render(prompt) for prompt in prompts])
    order = sorted(range(len(rows)), key=lambda at: -len(rows[at]))
    tokens, at_once = 0, max(1, lm.batch_size // args.samples)
    for start in range(0, len(order), at_once):
        some = [torch.tensor(rows[at]) for at in order[start : start + at_once]]
        ids, mask = (
            pad_sequence(each, batch_first=True, padding_side="left").to(model.device)
            for each in (some, [torch.ones_like(row) for row in some])
        )
        made = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=args.temperature,
            top_k=0,
            top_p=1.0,
            num_return_sequences=args.samples,
            max_new_tokens=args.tokens,
            stop_strings=[STOP],
            tokenizer=encoder._tokenizer,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=logprobs,
        )
        new = made.sequences[:, ids.shape[1] :]
        if logprobs:
            logits = torch.stack(made.logits, dim=1)
            chosen = logits.gather(-1, new[..., None])[..., 0]
            (chosen - logits.logsumexp(-1)).tolist()
        # Rows that ended early are filled up with the padding id.
        tokens += int((new != 0).sum())
        encoder._tokenizer.batch_decode(new, skip_special_tokens=True)
    return tokens


def our_run(lm: HuggingFaceLM, prompts: list[str], args: argparse.Namespace) -> int:
    rows = lm.generate(
        prompts,
        n=args.samples,
        temperature=args.temperature,
        seed=0,
        stop=[STOP],
        max_new_tokens=args.tokens,
    )
    return sum(len(answer.token_logprobs or ()) for row in rows for answer in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="model folder; the microworld's by default")
    parser.add_argument("--random", action="store_true", help="a random model instead")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=80, help="rows decoded at one time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="CPU threads; torch's choice by default")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        if args.random:
            lm = random_lm(args.batch)
        else:
            lm = HuggingFaceLM(
                args.model or microworld_model_path(),
                device=args.device,
                dtype="float32",
                batch_size=args.batch,
            )
    except KnowgateError as error:
        sys.exit(str(error))
    print(f"{lm.name} on {lm.device} in {lm.dtype}, n = {args.samples}")
    for kind in ("closed_book", "with_context"):
        compare(kind, lm, prompts_of(kind, args.questions), args)


def compare(kind: str, lm: HuggingFaceLM, prompts: list[str], args: argparse.Namespace) -> None:
    runs: dict[str, Callable[[], int]] = {
        "transformers": lambda: peer_run(lm, prompts, args, logprobs=False),
        "transformers + log-probabilities": lambda: peer_run(lm, prompts, args, logprobs=True),
        "knowgate": lambda: our_run(lm, prompts, args),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    tokens = dict.fromkeys(runs, 0)
    runs["transformers"]()  # thread pools and caches are warm before the clock starts
    for _ in range(args.rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            tokens[name] = run()
            seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    for name in runs:
        question = middle[name] / len(prompts)
        print(
            f"{kind:12}  {name:32}  {question * 1e3:8.2f} ms/question  "
            f"{middle[name] / tokens[name] * 1e6:7.1f} us/token  "
            f"{middle['transformers'] / middle[name]:.2f}x transformers' speed"
        )


if __name__ == "__main__":
    main()
