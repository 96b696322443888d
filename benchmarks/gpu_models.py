"""What the GPU benchmark works on: made-up texts, models, scorers and their peers.

torch runs the bundled encoder's weights as a folder of sentence-transformers; ONNX Runtime runs
the bundled scorers themselves.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

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


def model_folder(run: Run) -> str:
    """The encoder's folder: the bundled one as sentence-transformers reads it, or a tiny one."""
    from knowgate.guard.engine.embedded import save_embedded

    if run.tiny:
        return str(stand_in(run))
    folder = run.folder / "embedded"
    if not folder.is_dir():
        half = run.folder / f"embedded-{os.getpid()}"
        save_embedded(half)
        half.rename(folder)
    return str(folder)


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


def reranker(run: Run) -> Path:
    """A cross-encoder: the encoder under a random head."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = run.folder / "reranker"
    if not place.is_dir():
        source = model_folder(run)
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
        model.classifier.weight.data.mul_(20)
        half = run.folder / f"reranker-{os.getpid()}"
        model.save_pretrained(half)
        AutoTokenizer.from_pretrained(source).save_pretrained(half)
        half.rename(place)
    return place


def scorer_of(run: Run, kind: str, *, device: str | None = None, **options: Any) -> Any:
    """A scorer without a cache, by name; on the run's device unless another is named."""
    from knowgate.guard.engine import BiEncoderScorer, CrossEncoderScorer
    from knowgate.guard.engine.encoder import TokenEncoder
    from knowgate.guard.signals.relevance import load_scorer

    folder = model_folder(run)
    placed = {"device": device or run.device, **options}
    if kind == "cross_encoder":
        found: Any = CrossEncoderScorer(reranker(run), cache_bytes=0, **placed)
    elif kind == "bi_encoder":
        found = BiEncoderScorer(folder, cache_bytes=0, **placed)
        # Rows by our own tokeniser, as the bundled model has them.
        object.__setattr__(found.loaded, "encode_texts", None)
    elif kind == "late_interaction":
        found = _late_interaction()(TokenEncoder(folder, cache_bytes=0, **placed))
    else:
        found = load_scorer(kind, **placed)
    return found


@lru_cache(maxsize=1)
def _late_interaction() -> Any:
    """The class of a scorer that is public by name only."""
    from knowgate.guard.signals.relevance import load_scorer

    return type(load_scorer("late_interaction", device="cpu"))


def kinds(run: Run) -> list[str]:
    """The scorers that can be run with the weights at hand."""
    return ["bi_encoder", "late_interaction", "cross_encoder", *([] if run.tiny else BUNDLED)]


def peer(run: Run, kind: str, dtype: str) -> Callable[[Pairs], Any]:
    """`CrossEncoder.predict`, or `SentenceTransformer.encode` of questions and passages."""
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer

    options = {"device": run.device, "model_kwargs": {"dtype": getattr(torch, dtype)}}
    if kind == "predict":
        judge = CrossEncoder(str(reranker(run)), **options)
        identity = torch.nn.Identity()
        return lambda given: judge.predict(
            given, batch_size=64, show_progress_bar=False, activation_fn=identity
        )
    encoder = SentenceTransformer(model_folder(run), **options)

    def encode(given: Pairs) -> Any:
        texts = list(dict.fromkeys(text for pair in given for text in pair))
        return encoder.encode(texts, batch_size=64, show_progress_bar=False)

    return encode


# Scorers in ONNX Runtime, in float32.
BUNDLED = ("sufficiency",)
ENGINES = {
    "CrossEncoder.predict": ("predict", "bfloat16"),
    "SentenceTransformer.encode": ("encode", "bfloat16"),
    "knowgate cross_encoder": ("cross_encoder", "bfloat16"),
    "knowgate bi_encoder": ("bi_encoder", "bfloat16"),
    "knowgate late_interaction": ("late_interaction", "bfloat16"),
    "knowgate sufficiency": ("sufficiency", "float32"),
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


def installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
