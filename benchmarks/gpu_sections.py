"""The sections of the GPU benchmark: what is checked, and what is measured."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gpu_models import (
    BUNDLED,
    ENGINES,
    PEER_OF,
    Run,
    engines,
    kinds,
    language_model,
    pairs,
    peer,
    scorer_of,
    words,
)


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation."""
    ranks = [np.argsort(np.argsort(np.asarray(one))) for one in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def machine(run: Run) -> None:
    """Rates of matrix products and of copies: the ceilings."""
    run.found["weights"] = "random" if run.tiny else "the bundled all-MiniLM-L6-v2"
    run.found["gemm_tflops"] = {
        name: gemm_rate(run, name) / 1e12 for name in ("float32", "bfloat16")
    }


def gemm_rate(run: Run, dtype: str) -> float:
    """Operations per second of a large product of random matrices."""
    import torch

    size = 256 if run.tiny else 8192 if run.cuda else 1024
    left, right = (
        torch.randn(size, size, device=run.device).to(getattr(torch, dtype)) for _ in range(2)
    )

    def work() -> None:
        for _ in range(5):
            left @ right
        if run.cuda:
            torch.cuda.synchronize()

    return 5 * 2 * size**3 / run.measure(f"gemm {dtype}", work, 20)


def parity(run: Run) -> None:
    """Scores beside those of the CPU, one by one in float32."""
    given = pairs(8 if run.tiny else 128, 1)
    for kind in kinds(run):
        exact = scorer_of(run, kind, device="cpu").score_pairs(given)
        scorer = scorer_of(run, kind)
        # Log-odds of the trained mix are sums of features weighted by up to 30.
        limit = 1e-3 if kind == "sufficiency" else 1e-4
        worst = float(np.abs(scorer.score_pairs(given) - exact).max())
        run.check(f"{kind}: float32 as on the CPU", worst, limit)
        alone = np.concatenate([scorer.score_pairs([pair]) for pair in given[:16]])
        worst = float(np.abs(alone - scorer.score_pairs(given)[:16]).max())
        run.check(f"{kind}: no score depends on its neighbours", worst, limit / 10)
        if kind in BUNDLED:
            continue
        low = scorer_of(run, kind, dtype="bfloat16").score_pairs(given)
        alike = spearman(low, exact)
        run.found[f"{kind}: rank correlation of bfloat16"] = alike
        if not run.tiny:
            # Random weights tell passages apart too little; a random head, not much more.
            limit = 0.9 if kind == "cross_encoder" else 0.98
            run.check(f"{kind}: bfloat16 ranks alike", alike, limit, at_least=True)


def peer_parity(run: Run) -> None:
    """Scores of the cross-encoder beside `CrossEncoder.predict` on the same device."""
    given = pairs(8 if run.tiny else 64, 2)
    ours = scorer_of(run, "cross_encoder").score_pairs(given)
    theirs = peer(run, "predict", "float32")(given)
    run.check("cross_encoder: as CrossEncoder.predict", float(np.abs(ours - theirs).max()), 1e-4)


def threads(run: Run) -> None:
    """Many threads at once: each gets its own scores."""
    scorer = scorer_of(run, "bi_encoder")
    sets = [pairs(10, 10 + n, questions=1) for n in range(4 if run.tiny else 32)]
    expected = [scorer.score_pairs(one) for one in sets]
    wrong: list[float] = []

    def work(number: int) -> None:
        for _ in range(2):
            found = scorer.score_pairs(sets[number])
            wrong.append(float(np.abs(found - expected[number]).max()))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(sets))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    run.check("threads get their own scores", max(wrong, default=np.nan), 1e-5)
    run.check("threads all answered", len(wrong), 2 * len(sets), at_least=True)


def memory(run: Run) -> None:
    """A device without memory: an error or scores, and scores again afterwards."""
    import torch

    scorer = scorer_of(run, "bi_encoder")
    given = pairs(8 if run.tiny else 512, 20)
    expected = scorer.score_pairs(given)
    taken: list[Any] = []
    if run.cuda:
        free, _ = torch.cuda.mem_get_info()
        torch.cuda.empty_cache()
        taken.append(torch.empty(max(0, free - 64 * 2**20), dtype=torch.uint8, device=run.device))
    try:
        found = scorer.score_pairs(given)
        run.found["without memory"] = "scored"
        run.check("scores without memory", float(np.abs(found - expected).max()), 1e-4)
    except torch.OutOfMemoryError as error:
        run.found["without memory"] = type(error).__name__
    finally:
        taken.clear()
        if run.cuda:
            torch.cuda.empty_cache()
    worst = float(np.abs(scorer.score_pairs(given) - expected).max())
    run.check("scores after memory came back", worst, 1e-5)


def single(run: Run) -> None:
    """One question with ten new passages of 100 words."""
    sets = [pairs(10, 100 + n, questions=1, long=110) for n in range(50)]
    for name, score in engines(run).items():
        turn = iter(range(10**9))
        run.measure(name, lambda score=score, turn=turn: score(sets[next(turn) % 50]), 200)
    if run.cuda:
        run.check("1 × 10 passages, p50 ms", run.found["knowgate cross_encoder"]["p50_ms"], 3.0)


def callers(run: Run) -> None:
    """64 callers at once, each with one question and ten new passages, again and again."""
    at_once, rounds = (4, 2) if run.tiny else (64, 10)
    sets = [pairs(10, 1_000 + n, questions=1) for n in range(at_once)]
    scores = engines(run)
    share = (run.until - time.monotonic()) / max(1, len(scores))
    for name, score in scores.items():
        alone = run.measure(f"{name}, one caller", lambda score=score: score(sets[0]), 30)
        stop = time.monotonic() + share
        times: list[float] = []

        def work(number: int, score: Any = score, times: Any = times, stop: float = stop) -> None:
            for _ in range(rounds):
                began = time.perf_counter()
                score(sets[number])
                times.append(time.perf_counter() - began)
                if time.monotonic() > stop:
                    return

        began = time.perf_counter()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.found[name] = {
            "pairs_per_s": 10 * len(times) / (time.perf_counter() - began),
            "p50_ms": statistics.median(times) * 1e3,
            "p99_ms": float(np.quantile(times, 0.99)) * 1e3,
        }
        if run.cuda and name == "knowgate cross_encoder":
            run.check("p99 beside one caller", run.found[name]["p99_ms"] / alone / 1e3, 3.0)
    _speed_up(run, "pairs_per_s", 4.0)


def _speed_up(run: Run, key: str, goal: float) -> None:
    for ours, theirs in PEER_OF.items():
        if ours in run.found and theirs in run.found:
            ratio = run.found[ours][key] / run.found[theirs][key]
            run.found[ours]["speed"] = ratio
            if run.cuda and ours == "knowgate cross_encoder":
                run.check(f"{ours} beside {theirs}", ratio, goal, at_least=True)


def throughput(run: Run) -> None:
    """1,000 new pairs, and the share of the measured rate of bfloat16 products."""
    count = 16 if run.tiny else 1_000
    given = pairs(count, 5)
    rate = gemm_rate(run, "bfloat16")
    config = _shape(run)
    for name, score in engines(run).items():
        took = run.measure(name, lambda score=score: score(given), 10)
        together = ENGINES[name][0] in {"predict", "cross_encoder"}
        asked = len({question for question, _ in given})
        tokens = sum(len(p.split()) + 2 for _, p in given)
        tokens += sum(len(q.split()) + 1 for q, _ in given) if together else asked * 13
        flops = 2 * config["layers"] * (4 * config["width"] ** 2 + 8 * config["width"] ** 2)
        run.found[name] |= {"pairs_per_s": count / took, "of_gemm": tokens * flops / took / rate}
    _speed_up(run, "pairs_per_s", 1.0)
    if run.cuda:
        share = run.found["knowgate cross_encoder"]["of_gemm"]
        run.check("share of bfloat16 products", share, 0.5, at_least=True)


def _shape(run: Run) -> dict[str, int]:
    return {"layers": 2, "width": 32} if run.tiny else {"layers": 6, "width": 384}


def sampling(run: Run) -> None:
    """Ten samples of each prompt, beside transformers' own sampling."""
    import torch

    prompts = [words(40, 300 + n) for n in range(2 if run.tiny else 64)]
    options = {"n": 3 if run.tiny else 10, "temperature": 1.0, "seed": 0}
    lm = language_model(run, "bfloat16")
    ours = run.measure("knowgate", lambda: lm.generate(prompts, **options), 5)
    model, tokenizer = lm.engine.network.model, lm.engine.encoder._tokenizer
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    inputs = {name: inputs[name].to(run.device) for name in ("input_ids", "attention_mask")}

    def theirs() -> None:
        with torch.inference_mode():
            model.generate(
                **inputs,
                do_sample=True,
                top_k=0,
                num_return_sequences=options["n"],
                max_new_tokens=16,
                pad_token_id=0,
            ).cpu()

    run.found["knowgate"]["speed"] = run.measure("transformers.generate", theirs, 3) / ours


def confidence(run: Run) -> None:
    """Questions per second of `estimate_many`, ten samples each."""
    from knowgate.guard.signals.confidence import SampledConsistency

    lm = language_model(run, "bfloat16")
    estimator = SampledConsistency(lm)
    questions = [words(10, 600 + n) + "?" for n in range(2 if run.tiny else 256)]
    took = run.measure("estimate_many", lambda: estimator.estimate_many(questions), 3)
    run.found["estimate_many"]["questions_per_s"] = len(questions) / took


def training(run: Run) -> None:
    """A few steps of LoRA."""
    from knowgate.calibration.training.scenarios import (
        ScenarioTrainingSettings,
        TrainingExample,
        train_scenarios,
    )

    folder = run.folder / "lm"
    lm = language_model(run, "float32")
    lm.engine.network.model.save_pretrained(folder)
    lm.engine.encoder._tokenizer.save_pretrained(folder)
    del lm
    examples = [TrainingExample(words(20, n), words(3, n + 50)) for n in range(8)]
    settings = ScenarioTrainingSettings(batch_size=4, epochs=1, device=run.device)
    report = train_scenarios(folder, examples, run.folder / "LoRA", settings=settings)
    run.check("LoRA: the loss is a number", float(report.losses[-1]), 1e3)
    run.found["LoRA"] = {"seconds": report.seconds, "device": report.device}


# What is checked first, then what is measured; minutes of nine.
SECTIONS: dict[str, tuple[Callable[[Run], None], float]] = {
    "machine": (machine, 0.4),
    "parity": (parity, 1.2),
    "peer parity": (peer_parity, 0.5),
    "threads": (threads, 0.6),
    "memory": (memory, 0.6),
    "single": (single, 0.8),
    "callers": (callers, 1.5),
    "throughput": (throughput, 1.0),
    "sampling": (sampling, 1.0),
    "confidence": (confidence, 0.5),
    "training": (training, 0.5),
}
