"""Scorers as ONNX graphs: written only if their scores are those of torch."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.signals.relevance import _export, export_scorer, load_scorer
from knowgate.guard.signals.relevance._export import ExportReport
from tools.attack.tiny_models import WORDS, tiny_cross_encoder, tiny_encoder

EXPORTED = Path(__file__).parents[2] / "engine" / "data" / "exported"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "encoder")


def texts(count: int) -> list[tuple[str, str]]:
    draw = random.Random(0)
    return [
        (" ".join(draw.choices(WORDS, k=5)), " ".join(draw.choices(WORDS, k=draw.randint(3, 28))))
        for _ in range(count)
    ]


@pytest.mark.slow
def test_a_scorer_in_int8_ranks_as_the_one_in_torch(tmp_path: Path) -> None:
    for module in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(module, reason="needs `pip install 'knowgate[onnx-export]'`")
    model = tiny_cross_encoder(tmp_path / "model")
    report = export_scorer(str(model), tmp_path / "out", texts(120), dtype="int8")
    assert (report.kind, report.dtype, report.pairs) == ("cross_encoder", "int8", 60)
    assert report.correlation is not None
    assert report.correlation >= 0.99
    scorer = load_scorer(str(tmp_path / "out"), device="cpu")
    assert (scorer.fingerprint.backend, scorer.fingerprint.dtype) == ("onnxruntime", "int8")
    # Scales are fixed, so neighbours change nothing.
    pairs = texts(5)
    together = scorer.score_pairs(pairs)
    fresh = load_scorer(str(tmp_path / "out"), device="cpu")
    assert [float(fresh.score_pairs([pair])[0]) for pair in pairs] == together.tolist()
    # Nothing in the graph tells where it was made.
    graph = (tmp_path / "out" / "model.onnx").read_bytes()
    assert b"site-packages" not in graph
    assert str(Path(__file__).parents[4]).encode() not in graph


@pytest.mark.parametrize(
    ("dtype", "difference", "correlation", "missed"),
    [
        ("float32", 9e-6, 0.5, ""),
        ("float32", 2e-5, 1.0, "scores differ by up to 2.0e-05"),
        ("float32", float("nan"), 1.0, "scores differ by up to nan"),
        ("int8", 0.5, 0.991, ""),
        ("int8", 0.0, 0.989, "the rank correlation with torch is 0.9890"),
        ("float16", 0.0, None, "not defined"),
    ],
)
def test_a_bad_export_is_told(
    dtype: str, difference: float, correlation: float | None, missed: str
) -> None:
    report = ExportReport("sufficiency", dtype, 100, difference, correlation, 1)
    assert report.misses().startswith(missed) if missed == "" else missed in report.misses()
    assert bool(report.misses()) == bool(missed)


def test_a_bad_export_is_an_error(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def write_another(_: object, folder: Path, **__: object) -> None:
        shutil.copytree(EXPORTED, folder, dirs_exist_ok=True)

    monkeypatch.setattr(_export, "export_encoder", write_another)
    assert export_scorer(str(encoder), tmp_path / "same", texts(50)).difference < 1e-5
    monkeypatch.setattr(_export, "MOST_DIFFERENCE", 0.0)
    with pytest.raises(ModelFolderError, match="is not written: scores differ by up to"):
        export_scorer(str(encoder), tmp_path / "other", texts(50))


@pytest.mark.parametrize(("dtype", "count"), [("float32", 49), ("int8", 99)])
def test_too_few_pairs_check_nothing(tmp_path: Path, dtype: str, count: int) -> None:
    with pytest.raises(InputError, match=f"{count} pairs are too few"):
        export_scorer("bi_encoder", tmp_path / "out", texts(count), dtype=dtype)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["lexical", "sufficiency", "bi_encoder"])
def test_what_torch_does_not_compute_is_not_exported(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*sufficiency,dtype=int8"):
        export_scorer(name, tmp_path / "out", texts(50))


def test_an_export_of_the_bundled_scorer_by_an_older_version_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXPORTED, tmp_path / "copy"))
    path = folder / "exported.json"
    path.write_text(path.read_text().replace('"bi_encoder"', '"sufficiency"'))
    with pytest.raises(InputError, match=r"not loaded from an export .*sufficiency,dtype=int8"):
        load_scorer(str(folder))
