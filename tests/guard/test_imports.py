"""`from knowgate import …` is lazy, and what is not needed is not imported."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import knowgate
from knowgate.guard import Guard, GuardMetrics, Route
from knowgate.guard._guard import _log_uncalibrated
from tests.support.paths import ROOT

PROGRAM = """
import json, sys
import knowgate
before = sorted({name.split(".")[0] for name in sys.modules})
from knowgate import Decision, Guard, GuardedRAG, Policy, Route
print(json.dumps([before, Guard.__module__, GuardedRAG.__module__, knowgate.__all__]))
"""


@pytest.mark.slow
def test_importing_knowgate_loads_nothing_until_a_name_is_used() -> None:
    root = Path(__file__).resolve().parents[2]
    output = subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=root)
    before, guard, chain, names = json.loads(output)

    assert not {"torch", "langchain_core", "pydantic", "numpy"} & set(before)
    assert (guard, chain) == ("knowgate.guard._guard", "knowgate.adapters.langchain._guarded_rag")
    assert names == sorted(names)


def test_unknown_names_are_attribute_errors_and_dir_shows_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gard'"):
        _ = knowgate.Gard
    assert set(knowgate.__all__) <= set(dir(knowgate))


@pytest.mark.slow
def test_the_default_guard_decides_and_says_that_it_is_not_calibrated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    _log_uncalibrated.cache_clear()  # other tests may have made one
    with caplog.at_level(logging.WARNING, logger="knowgate.guard"):
        guard = Guard.default(metrics=GuardMetrics(registry))
        Guard.default(metrics=False)

    opens = "When does the library open?"
    assert guard.decide(opens, ["The library opens at nine."]).route is Route.FOLLOW_CONTEXT
    assert guard.decide(opens, ["Dogs must be registered."]).route is Route.ABSTAIN
    assert "not calibrated on your data" in guard.policy.note
    assert not guard.policy.calibrated
    assert guard.policy.guarantee is None
    assert (
        registry.get_sample_value(
            "knowgate_guards_total", {"guard": "default", "calibrated": "false"}
        )
        == 1
    )
    said = [one for one in caplog.records if "not calibrated on your data" in one.getMessage()]
    assert len(said) == 1


def test_the_accurate_default_reads_and_names_its_own_threshold(ms_marco: None) -> None:
    guard = Guard.default(accurate=True, metrics=False)
    assert guard.policy.scorer.kind == "sufficiency_cross"
    opens = "When does the library open?"
    assert guard.decide(opens, ["The library opens at nine."]).route is Route.FOLLOW_CONTEXT
    others = ["The library has two floors.", "Dogs must be registered."]
    assert guard.decide(opens, others).route is Route.ABSTAIN


MODELS = {
    "huggingface_hub",
    "onnxruntime",
    "sentence_transformers",
    "sklearn",
    "torch",
    "transformers",
}
EVALUATION = {"matplotlib", "langchain", "langchain_core", "scipy"}
# What takes seconds to import, and what the embedded encoder does without.
NOT_TO_DECIDE = {
    "huggingface_hub",
    "langchain_core",
    "matplotlib",
    "peft",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "torch",
    "transformers",
}


def imported(program: str) -> set[str]:
    """The top-level modules that a fresh process has imported after `program`."""
    shown = "\nimport json, sys\nprint(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    output = subprocess.check_output([sys.executable, "-c", program + shown], cwd=ROOT, text=True)
    return set(json.loads(output.splitlines()[-1]))


def test_importing_the_guard_imports_nothing_that_is_needed_later() -> None:
    # The package alone, and every name of it.
    assert not (MODELS | EVALUATION | {"numpy", "pydantic"}) & imported("import knowgate.guard")
    assert not (MODELS | EVALUATION) & imported("from knowgate.guard import *")


@pytest.mark.slow
def test_the_first_decision_of_the_default_guard_imports_no_library_but_onnx_runtime() -> None:
    found = imported(
        "from knowgate import Guard\n"
        "guard = Guard.default(metrics=False)\n"
        "assert guard.decide('When does it open?', ['It opens at nine.']).relevance"
    )
    assert "onnxruntime" in found
    assert not NOT_TO_DECIDE & found


def test_the_help_of_the_command_line_imports_neither_models_nor_commands() -> None:
    found = imported(
        "import sys\n"
        "sys.argv = ['knowgate', '--help']\n"
        "from knowgate.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert not (MODELS | EVALUATION | {"numpy", "pydantic"}) & found


@pytest.mark.slow
def test_the_langchain_adapters_add_no_model_library_to_langchain_core() -> None:
    found = imported("from knowgate.adapters.langchain import *")
    assert not (MODELS | {"scipy", "matplotlib", "tokenizers"}) & found
