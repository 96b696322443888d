"""What is not imported: to use the guard, to decide for the first time, to show the help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

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
