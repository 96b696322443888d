"""`benchmarks/stages.py`, which is a script and no package."""

from __future__ import annotations

import importlib
import sys

import pytest

from knowgate.guard.signals.relevance import load_scorer
from tests.support.paths import BENCHMARKS, ROOT

EXPORTED = ROOT / "tests" / "guard" / "engine" / "data"


@pytest.mark.parametrize("name", ["exported", "exported_cross_encoder"])
def test_the_steps_are_timed_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="needs `pip install 'knowgate[onnx]'`")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    known = set(sys.modules)
    stages = importlib.import_module("stages")
    found = stages.stage_seconds(load_scorer(str(EXPORTED / name)), [("is it open ?", "a dog")])
    assert list(found) == ["encode_pre", "encode_core", "encode_post"]
    assert min(found.values()) >= 0.0
    for module in {"stages", "scoring"} - known:
        sys.modules.pop(module, None)
