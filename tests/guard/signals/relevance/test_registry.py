"""Scorers by name, and what goes with them by default."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import InputError
from knowgate.guard.contracts import SetRelevanceScorer, SetScore
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.fingerprint import Fingerprint, default_aggregator
from knowgate.guard.policy import default_calibrator
from knowgate.guard.signals.relevance import (
    LexicalScorer,
    _folders,
    export_scorer,
    load_scorer,
    register_scorer,
)
from knowgate.guard.signals.relevance import registry as _registry
from knowgate.guard.signals.relevance._folders import ExportReport
from knowgate.guard.signals.relevance.registry import scorer_names
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer
from tools.attack.tiny_models import WORDS, tiny_cross_encoder, tiny_encoder


def test_the_trained_scorers_have_names() -> None:
    assert {"sufficiency", "late_interaction", "bi_encoder"} <= set(scorer_names())
    assert list(scorer_names()) == sorted(scorer_names())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sufficiency", "joint"),
        ("judge", "joint"),
        ("bi_encoder", "max"),
        ("late_interaction", "max"),
        ("a user's own", "max"),
    ],
)
def test_trained_scorers_are_gone_by_together_and_others_by_the_best(
    kind: str, expected: str
) -> None:
    assert default_aggregator(kind) == expected


def test_log_odds_become_probabilities(scorer: SufficiencyScorer) -> None:
    calibrator = default_calibrator(scorer.fingerprint)
    for value in (-3.0, 0.0, 1.5):
        assert calibrator.apply(value) == pytest.approx(1 / (1 + math.exp(-value)))


@pytest.mark.parametrize("lost", ["sufficiency.json", "adapter_config.json"])
def test_a_tuned_folder_that_lost_a_file_is_told_which(
    folder: Path, tmp_path: Path, lost: str
) -> None:
    for path in folder.iterdir():
        if path.name != lost:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=rf"{lost}: no such file|has no {lost}"):
        load_scorer(str(tmp_path))


def test_a_prefix_makes_a_scorer_from_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(_registry._SCORERS, "mine:", raising=False)
    made: list[str] = []

    def factory(rest: str) -> LexicalScorer:
        made.append(rest)
        return LexicalScorer()

    register_scorer("mine:", factory)
    assert load_scorer("mine:a:b,c=d").fingerprint.kind == "lexical"
    assert made == ["a:b,c=d"]
    assert "mine:" not in scorer_names()
    with pytest.raises(InputError, match="'mine:' exists already"):
        register_scorer("mine:", factory)
    with pytest.raises(InputError, match="device: the scorer 'mine:' takes no options"):
        load_scorer("mine:a", device="cpu")
    with pytest.raises(InputError, match=r"unknown scorer 'other:a' .* mine:…"):
        load_scorer("other:a")


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

    monkeypatch.setattr(_folders, "export_encoder", write_another)
    assert export_scorer(str(encoder), tmp_path / "same", texts(50)).difference < 1e-5
    monkeypatch.setattr(_folders, "MOST_DIFFERENCE", 0.0)
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


class _NoScorer:
    """Lacks everything that a scorer has."""


NUMBER = 3


@pytest.mark.parametrize("attribute", ["_NoScorer", "NUMBER"])
def test_what_is_named_in_a_module_and_is_no_scorer_is_rejected(attribute: str) -> None:
    with pytest.raises(InputError, match="not a relevance scorer of the guard"):
        load_scorer(f"python:{__name__}:{attribute}")


class _Pairs(SetRelevanceScorer):
    """Judges pairs; the other methods are left to the protocol, there is no fingerprint yet."""

    @property
    def fingerprint(self) -> Fingerprint:
        raise RuntimeError("the weights are not there yet")

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.zeros(len(pairs))


class _Sets(LexicalScorer):
    """Judges sets, as its base."""

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        return [SetScore((0.0,) * len(texts), 0.0) for texts in passages]


class _MoreSets(_Sets):
    """Inherits all."""


@pytest.mark.parametrize("kind", [_Pairs, _Sets, _MoreSets])
def test_a_scorer_of_a_module_is_loaded_whatever_it_judges_and_not_asked(kind: type) -> None:
    assert type(load_scorer(f"python:{__name__}:{kind.__name__}")) is kind
