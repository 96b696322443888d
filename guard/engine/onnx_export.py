"""Write an encoder or cross-encoder as an ONNX graph, adapters merged, in float32, float16 or int8.

int8 is static: scales come from texts that are given, so a score depends on nothing but its
own texts. Only products with weights are quantised, weights per output channel.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFolderError, optional_import
from ..files import file_sha256, write_text
from ._onnx_backend import GRAPH_FILE, Manifest, installed_version
from ._scorers import KIND
from ._tokenizing import TOKENIZER_FILE, PairTokenizer, free_tokenizer, token_rows
from ._torch_backend import encoded, logits
from .backends import ATTENTION_MASK, INPUT_IDS, MANIFEST_FILE, TOKEN_TYPE_IDS, LoadedEncoder

ENCODER_OUTPUTS = ("token_vectors", "text_vector")
# 23 loads in float32, but not quantised.
_OPSET = 20
_VERSIONS = ("knowgate", "torch", "onnx", "onnxscript", "onnxruntime")


def export_encoder(
    loaded: LoadedEncoder,
    folder: Path,
    *,
    scorer: str,
    dtype: str = "float32",
    pairs: Sequence[tuple[str, str]] = (),
) -> None:
    """Write an encoder or cross-encoder into a folder.

    Args:
        loaded: a model that torch runs in float32; it is changed for float16.
        folder: is made where it is missing.
        scorer: the kind of scorer that it is for.
        dtype: `float32`, `float16` or `int8`.
        pairs: of texts like those that it will read, for the scales of int8.

    Raises:
        ModelFolderError: its tokenizer has no tokenizer.json, or no [CLS] and [SEP].
        MissingDependencyError: onnx, onnxscript or onnxruntime is not installed.
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        optional_import(module)
    marks = loaded.tokenizer
    source = loaded.folder / TOKENIZER_FILE
    if not source.is_file() or marks.cls_token_id is None or marks.sep_token_id is None:
        what = "its tokenizer has no tokenizer.json, or no [CLS] and [SEP]"
        hint = "name a folder of a BERT-like model"
        raise ModelFolderError(what, where=str(loaded.folder), hint=hint)
    folder.mkdir(parents=True, exist_ok=True)
    graph = folder / GRAPH_FILE
    if dtype == "float16":
        loaded.model.half()
    write_graph(loaded, graph, ["logits"] if scorer == KIND else ENCODER_OUTPUTS)
    if dtype == "int8":
        _quantize(graph, _calibration(loaded, scorer, pairs))
    shutil.copyfile(source, folder / TOKENIZER_FILE)
    manifest = Manifest(
        scorer=scorer,
        dtype=dtype,
        max_length=loaded.max_length,
        cls_token_id=marks.cls_token_id,
        sep_token_id=marks.sep_token_id,
        unk_token_id=marks.unk_token_id,
        graph_sha256=file_sha256(graph),
        tokenizer_sha256=file_sha256(folder / TOKENIZER_FILE),
        weights_sha256=loaded.weights_sha256,
        settings=loaded.settings,
        versions={name: installed_version(name) for name in _VERSIONS},
    )
    write_text(folder / MANIFEST_FILE, manifest.model_dump_json(indent=2) + "\n")


def write_graph(loaded: LoadedEncoder, path: Path, outputs: Sequence[str]) -> None:
    """Write a model that torch runs as a graph with these outputs."""
    torch: Any = optional_import("torch")
    model, give = loaded.model, encoded if outputs is ENCODER_OUTPUTS else logits
    names = [INPUT_IDS, ATTENTION_MASK, *([TOKEN_TYPE_IDS] if loaded.takes_types else [])]

    class Graph(torch.nn.Module):  # type: ignore[misc]
        """Ids to what the model gives."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> tuple[Any, ...]:
            return give(self.model, dict(zip(names, inputs, strict=True)))

    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 6:] = 0
    # Ids and types are all 1, which no vocabulary lacks.
    given = [mask if name == ATTENTION_MASK else torch.ones_like(mask) for name in names]
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with _quietly(), _for_export(model):
        program = torch.onnx.export(
            Graph().eval(),
            tuple(one.to(model.device) for one in given),
            dynamo=True,
            dynamic_shapes=(tuple(dynamic for _ in names),),
            opset_version=_OPSET,
            input_names=names,
            output_names=list(outputs),
            verbose=False,
        )
        program.save(str(path))
    _strip(path)


def _strip(path: Path) -> None:
    """Take remarks and shapes out of a graph.

    Remarks name files of this machine; shapes as the exporter found them keep the quantiser
    from reading its own.
    """
    onnx = optional_import("onnx")
    model = onnx.load(str(path))
    del model.graph.value_info[:], model.graph.metadata_props[:], model.metadata_props[:]
    for part in (*model.graph.node, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    for constant in model.graph.initializer:
        del constant.metadata_props[:]
        constant.doc_string = ""
    model.graph.doc_string = model.doc_string = ""
    onnx.save(model, str(path))


@contextlib.contextmanager
def _for_export(model: Any) -> Iterator[None]:
    """Let a model compute attention step by step.

    torch's own function for attention becomes more steps in a graph, which guard against rows
    that see nothing; a row sees itself at least.
    """
    parts = [part for part in model.modules() if hasattr(part, "set_attn_implementation")]
    before = [part.config._attn_implementation for part in parts]
    for part in parts:
        part.set_attn_implementation("eager")
    try:
        yield
    finally:
        for part, name in zip(parts, before, strict=True):
            part.set_attn_implementation(name)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's progress and remarks, which are about libraries, not the model."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _calibration(
    loaded: LoadedEncoder,
    scorer: str,
    pairs: Sequence[tuple[str, str]],
) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Inputs of the graph, one row each."""
    tokenizer = free_tokenizer(loaded.tokenizer)
    if scorer == KIND:
        for row in PairTokenizer(tokenizer, loaded.max_length).rows(pairs):
            types = {TOKEN_TYPE_IDS: row.types} if loaded.takes_types else {}
            yield _inputs({INPUT_IDS: row.ids, **types})
    else:
        texts = [text for pair in pairs for text in pair]
        for ids in token_rows(tokenizer, loaded.tokenizer, loaded.max_length, texts):
            yield _inputs({INPUT_IDS: ids})


def _inputs(row: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    found = {name: np.asarray([one], dtype=np.int64) for name, one in row.items()}
    return {**found, ATTENTION_MASK: np.ones_like(found[INPUT_IDS])}


def _quantize(path: Path, rows: Iterator[dict[str, NDArray[np.int64]]]) -> None:
    """Quantise the graph in `path` with scales from the rows."""
    onnx = optional_import("onnx")
    quantization = optional_import("onnxruntime.quantization")
    graph = onnx.load(str(path))
    constants = {one.name for one in graph.graph.initializer}
    products = [
        node.name
        for node in graph.graph.node
        if node.op_type in ("MatMul", "Gemm") and constants & set(node.input)
    ]
    with _quietly():
        quantization.quantize_static(
            str(path),
            str(path),
            SimpleNamespace(get_next=lambda: next(rows, None)),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            # Weights of seven bits: those of eight saturate on processors without VNNI, which
            # would then give other scores than the one that calibrated.
            reduce_range=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_quantize=products,
            op_types_to_quantize=["MatMul", "Gemm"],
            extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"]},
        )
