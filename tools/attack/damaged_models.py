"""Damaged model folders: a file cut off, no heads, huge sizes. One line each, at once."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard.errors import KnowgateError
from knowgate.guard.signals.conflict import CrossEncoderEntailment
from knowgate.guard.signals.relevance import load_scorer

from .outcome import Outcome
from .tiny_models import (
    change_json,
    tiny_cross_encoder,
    tiny_encoder,
    tiny_entailment_model,
    tiny_language_model,
)

_SECONDS = 20
# Beyond what the process has when it begins.
_BYTES = 1 << 30
Damage = Callable[[Path], None]
Load = Callable[[Path], object]


def _content(change: Callable[[bytes], bytes], name: str = "model.safetensors") -> Damage:
    return lambda folder: _write(folder / name, change((folder / name).read_bytes()))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _header(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change the header of the weights, and leave what follows."""

    def changed(content: bytes) -> bytes:
        size = struct.unpack("<Q", content[:8])[0]
        value = json.loads(content[8 : 8 + size])
        change(value)
        text = json.dumps(value).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + size :]

    return _content(changed)


def _first(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value[sorted(name for name in value if name != "__metadata__")[0]]
    return found


def _header_size(content: bytes) -> int:
    return int(8 + struct.unpack("<Q", content[:8])[0])


WEIGHTS: dict[str, Damage] = {
    "empty": _content(lambda content: b""),
    "cut within the size": _content(lambda content: content[:5]),
    "cut within the header": _content(lambda content: content[:60]),
    "cut after the header": _content(lambda content: content[: _header_size(content)]),
    "cut in the middle": _content(lambda content: content[: len(content) // 2]),
    "one byte short": _content(lambda content: content[:-1]),
    "bytes behind the end": _content(lambda content: content + bytes(64)),
    "a header of exabytes": _content(lambda content: struct.pack("<Q", 1 << 62) + content[8:]),
    "a header that is no JSON": _content(lambda content: content[:8] + b"?" + content[9:]),
    "zeros": _content(lambda content: bytes(len(content))),
    "an unknown type": _header(lambda value: _first(value).update(dtype="F7")),
    "a shape of 10^12": _header(lambda value: _first(value).update(shape=[10**12])),
    "a shape that overflows": _header(lambda value: _first(value).update(shape=[2**40, 2**40])),
    "places beyond the end": _header(lambda value: _first(value).update(data_offsets=[0, 1 << 40])),
    "no tensor": _content(lambda content: struct.pack("<Q", 2) + b"{}"),
    "a tensor missing": _header(lambda value: value.pop(sorted(value)[1])),
}


def _config(**fields: object) -> Damage:
    return lambda folder: change_json(folder / "config.json", **fields)


two_layers = _config(num_hidden_layers=2)
_SIZES: dict[str, tuple[object, ...]] = {
    "num_attention_heads": (0, -1, 3, 10**9, "two", 2.5),
    "num_hidden_layers": (-1, 10**9, "one"),
    "hidden_size": (0, -16, 10**6, 10**9, 10**15),
    "intermediate_size": (0, 10**9, 10**15),
    "vocab_size": (0, 1, 10**12),
    "max_position_embeddings": (0, -1, 10**12),
    "type_vocab_size": (0, 10**12),
    "hidden_act": ("what", 7),
    "model_type": ("what", None, []),
    "layer_norm_eps": ("small",),
    "pad_token_id": (10**9,),
}
CONFIGS: dict[str, Damage] = {
    **{
        f"{name} = {value!r}": _config(**{name: value})
        for name, values in _SIZES.items()
        for value in values
    },
    "no fields": lambda folder: _write(folder / "config.json", b"{}"),
    "a list": lambda folder: _write(folder / "config.json", b"[]"),
    "no JSON": lambda folder: _write(folder / "config.json", b"{"),
}
TOKENIZERS: dict[str, Damage] = {
    "cut in the middle": _content(lambda content: content[: len(content) // 2], "tokenizer.json"),
    "empty": _content(lambda content: b"", "tokenizer.json"),
    "no fields": _content(lambda content: b"{}", "tokenizer.json"),
    "a list": _content(lambda content: b"[]", "tokenizer.json"),
    "random bytes": _content(lambda content: os.urandom(200), "tokenizer.json"),
    "nested too deeply": _content(lambda content: b"[" * 100_000, "tokenizer.json"),
    "a length that is text": lambda folder: change_json(
        folder / "tokenizer_config.json", model_max_length="long"
    ),
}


def _part(name: str, **fields: object) -> Damage:
    return lambda folder: change_json(folder / name, **fields)


PARTS: dict[str, Damage] = {
    "dense layer of 10^9": _part("2_Dense/config.json", in_features=10**9, out_features=10**9),
    "dense layer of 10^5": _part("2_Dense/config.json", in_features=10**5, out_features=10**5),
    "dense layer of nothing": _part("2_Dense/config.json", in_features=0),
    "dense layer of text": _part("2_Dense/config.json", in_features="many"),
    "dense layer without sizes": lambda folder: _write(folder / "2_Dense/config.json", b"{}"),
    "dense weights cut": _content(lambda content: content[:-9], "2_Dense/model.safetensors"),
    "pooling of another width": _part("1_Pooling/config.json", word_embedding_dimension=7),
    "pooling of nothing": lambda folder: _write(folder / "1_Pooling/config.json", b"{}"),
    "pooling as a list": lambda folder: _write(folder / "1_Pooling/config.json", b"[]"),
    "a length of 0": _part("sentence_bert_config.json", max_seq_length=0),
    "a negative length": _part("sentence_bert_config.json", max_seq_length=-5),
    "a length of text": _part("sentence_bert_config.json", max_seq_length="long"),
    "a length of 10^15": _part("sentence_bert_config.json", max_seq_length=10**15),
    "prompts as text": _part("config_sentence_transformers.json", prompts="query"),
}


def disorderly(load: Load, original: Path, damages: Mapping[str, Damage]) -> list[str]:
    """Which copies are not loaded and used, or rejected in one line, at once and in little memory.

    In a process of its own: a library may take all memory, or never come back. What would have
    been tried after that is named, too.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            limit = _used() + _BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            for name, damage in damages.items():
                signal.alarm(_SECONDS)
                if _ends_well(load, damaged(original, damage)):
                    os.write(writing, f"{name}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        orderly = set(pipe.read().splitlines())
    os.waitpid(child, 0)
    return [name for name in damages if name not in orderly]


def _used() -> int:
    if sys.platform != "linux":
        return 1 << 40
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _ends_well(load: Load, folder: Path) -> bool:
    try:
        load(folder)
    except KnowgateError as error:
        return "\n" not in str(error)
    except BaseException as error:  # noqa: BLE001 - whatever a library raises is no clear rejection
        if os.environ.get("ATTACK_SHOW"):
            print(f"{type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return False
    return True


def score(folder: Path) -> object:
    """Load a scorer and score with it."""
    return load_scorer(f"{folder},device=cpu").score(
        "When is the library open?", ["a dog can swim"]
    )


def _entail(folder: Path) -> object:
    return CrossEncoderEntailment(folder)


def _language(folder: Path) -> object:
    return HuggingFaceLM(folder, device="cpu").generate(["a dog can"])


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Load damaged folders of scorers, an entailment model and a language model."""
    folders = {
        "scorer": (tiny_encoder(folder / "encoder"), score),
        "cross-encoder": (tiny_cross_encoder(folder / "cross"), score),
        "entailment model": (tiny_entailment_model(folder / "entailment"), _entail),
        "language model": (tiny_language_model(folder / "language"), _language),
    }
    damages = {
        **{f"weights: {name}": one for name, one in WEIGHTS.items()},
        **{f"configuration: {name}": one for name, one in CONFIGS.items()},
        **{f"tokenizer: {name}": one for name, one in TOKENIZERS.items()},
    }
    for kind, (original, load) in folders.items():
        load(original)  # the libraries are loaded once, before processes are forked
        own = {**damages, **(PARTS if kind == "scorer" else {})}
        chosen = dict(list(own.items())[:: 1 if full else 9])
        found = disorderly(load, original, chosen)
        what = f"damaged {kind} with anything but one line"
        yield Outcome(what, len(chosen), len(found), cases=tuple(found))


def damaged(original: Path, damage: Damage) -> Path:
    """Return a damaged copy of a folder, in the place of the last one."""
    copy = original.with_name("damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    damage(copy)
    return copy
