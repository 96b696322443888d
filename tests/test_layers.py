"""Who imports whom, and the limits that keep the source readable, checked on every file.

import-linter holds the order of the packages (`make lint`); here stands what it cannot
express.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import forget, inner, parsed, statements

# A line of an import that names something private; other files need not be parsed for these.
PRIVATE_IMPORT = re.compile(r"^\s*(?:from|import)\s.*[.\s]_[a-z]|^\s+_[a-z]\w*( as \w+)?,?$", re.M)

TOP = ("adapters", "calibration", "guard", "offline_eval")
# Above this a reader loses the thread.
MOST_LINES = 60
MOST_PUBLIC_NAMES = 150

# Folders and files that build or measure the inside of one package, and may look into it.
UNIKNOW = ("knowgate", "offline_eval", "suites", "uniknow")
INSIDE_OF = {
    "benchmarks/abstention.py": ("knowgate", "guard", "abstention"),
    "benchmarks/answerability.py": ("knowgate", "offline_eval", "suites", "uaqfact"),
    "benchmarks/diversity.py": ("knowgate", "offline_eval", "data", "diversity"),
    "benchmarks/gpu_models.py": ("knowgate", "guard", "engine"),
    "tests/guard/signals/relevance/test_hub_models.py": ("knowgate", "guard", "engine"),
    "tests/offline_eval/cli/test_tune_scenarios.py": UNIKNOW,
    "tools/embedded_model.py": ("knowgate", "guard", "engine"),
    "tools/multilingual_model.py": ("knowgate", "guard", "engine"),
    "tools/microworld": ("knowgate", "offline_eval", "testbed"),
    "tools/sufficiency/fit_cross.py": ("knowgate", "guard", "signals", "relevance"),
    "tools/sufficiency/fit_mentions.py": ("knowgate", "guard", "signals", "relevance"),
}


def sources(*folders: str) -> list[Path]:
    """Every Python file below `folders`, sorted."""
    return [path for name in folders for path in sorted((ROOT / name).rglob("*.py"))]


PRODUCT = sources(*TOP)
AROUND = sources("benchmarks", "examples", "tests", "tools")


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Frees the trees at the end."""
    yield
    forget()
    functions.cache_clear()


def name_of(path: Path) -> str:
    """`guard/_guard.py` → `guard/_guard.py`, the way a failure shows it."""
    return path.relative_to(ROOT).as_posix()


@cache
def module_of(path: Path) -> tuple[str, ...]:
    """The dotted name of a module of the product as its parts; an `__init__` is its package."""
    parts = ("knowgate", *path.relative_to(ROOT).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and absolute name, as parts, of everything of knowgate that `path` imports."""
    inside = path.relative_to(ROOT).parts[0] in TOP
    package = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
    for node in statements(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            stem = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                if not inside:
                    continue
                stem = package[: len(package) - node.level + 1] + stem
            for alias in node.names:
                yield node.lineno, (*stem, alias.name)


@cache
def private_owner(name: tuple[str, ...]) -> tuple[str, ...] | None:
    """The package that alone may import `name`, None where everybody may."""
    if name[0] != "knowgate":
        return None
    for at, part in enumerate(name[1:], start=1):
        if part.startswith("_") and not part.endswith("__"):
            # The part before is a package, or the module that defines a private name.
            return name[:at] if ROOT.joinpath(*name[1:at]).is_dir() else name[: at - 1]
    return None


@cache
def functions(path: Path) -> tuple[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef], ...]:
    """Every function and method of a file with its qualified name."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in inner(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{child.name}", child  # type: ignore[misc]
                yield from below(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from below(child, f"{prefix}{child.name}.")
            else:
                yield from below(child, prefix)

    return tuple(below(parsed(path), ""))


def is_command(path: Path) -> bool:
    """Whether the file defines commands, whose parameters are the options of `--help`."""
    return (ROOT / "offline_eval" / "cli") in path.parents


def lines_of_code(node: ast.FunctionDef | ast.AsyncFunctionDef, *, signature: bool) -> int:
    """Lines of a function without its docstring; without `signature`, of its body alone."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return 0
    last = node.end_lineno or node.lineno
    lines = last - body[0].lineno + 1
    return lines + node.body[0].lineno - node.lineno if signature else lines


@pytest.mark.slow
def test_no_package_imports_a_private_module_of_another() -> None:
    found = [
        f"{name_of(path)}:{line} {'.'.join(name)}"
        for path in PRODUCT
        for line, name in imported(path)
        if (owner := private_owner(name)) and module_of(path)[: len(owner)] != owner
    ]
    assert found == []


def test_private_modules_are_tested_from_the_folder_of_their_package_only() -> None:
    found = []
    for path in AROUND:
        if not PRIVATE_IMPORT.search(path.read_text(encoding="utf-8")):
            continue
        folder = path.relative_to(ROOT).parent
        own = ("knowgate", *folder.parts[1:]) if folder.parts[0] == "tests" else ()
        home = INSIDE_OF.get(name_of(path)) or INSIDE_OF.get(folder.as_posix(), own)
        for line, name in imported(path):
            owner = private_owner(name)
            if owner and home[: len(owner)] != owner:
                found.append(f"{name_of(path)}:{line} {'.'.join(name)}")
    assert found == []


def test_tests_replace_what_is_private_in_their_own_package_only() -> None:
    """By `setattr` with a name in a text, in the folders beside those of the offline evaluation."""
    folders = ("adapters", "benchmarks", "calibration", "golden", "guard", "support", "tools")
    found = []
    for path in [*sources(*(f"tests/{one}" for one in folders)), *(ROOT / "tests").glob("*.py")]:
        own = ("knowgate", *path.relative_to(ROOT).parent.parts[1:])
        home = INSIDE_OF.get(name_of(path), own)
        text = path.read_text(encoding="utf-8")
        for dotted in re.findall(r'setattr\(\s*"(knowgate\.[\w.]+)"', text):
            owner = private_owner(tuple(dotted.split(".")))
            if owner and home[: len(owner)] != owner:
                found.append(f"{name_of(path)}: {dotted}")
    assert found == []


def public_modules() -> list[str]:
    """Dotted names of the modules without a private part."""
    names = [module_of(path) for path in PRODUCT]
    public = [name for name in names if not any(part.startswith("_") for part in name[1:])]
    return ["knowgate", *sorted(".".join(name) for name in public)]


def public_names() -> set[str]:
    """What users may import: the names in `__all__`, each once."""
    return {
        name
        for module_name in public_modules()
        for name in getattr(importlib.import_module(module_name), "__all__", ())
    }


def own_names(module_name: str) -> list[str]:
    """What a public module without `__all__` defines under a public name."""
    path = ROOT.joinpath(*module_name.split(".")[1:]).with_suffix(".py")
    if not path.is_file():
        return []
    names: list[str] = []
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return [name for name in names if not name.startswith("_")]


def test_public_names_are_few_and_pages_use_them() -> None:
    names = public_names()
    pages = "".join(
        path.read_text(encoding="utf-8")
        for folder, pattern in (
            (".", "*.md"),
            ("docs", "**/*.md"),
            ("examples", "**/*.py"),
            ("examples", "**/*.md"),
            ("examples", "**/*.ipynb"),
        )
        for path in (ROOT / folder).glob(pattern)
        if path.name != "CHANGELOG.md"
    )
    used = set(re.findall(r"\w+", pages))

    assert len(names) <= MOST_PUBLIC_NAMES, len(names)
    assert sorted(names - used - {"__version__"}) == []


def test_everything_public_has_a_docstring() -> None:
    bare = []
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        if not inspect.getdoc(module):
            bare.append(module_name)
        for name in getattr(module, "__all__", own_names(module_name)):
            value = getattr(module, name)
            ours = str(getattr(value, "__module__", "")).startswith("knowgate")
            if (inspect.isclass(value) or inspect.isfunction(value)) and ours and not value.__doc__:
                bare.append(f"{module_name}.{name}")
    assert bare == []


@pytest.mark.slow
def test_functions_are_short() -> None:
    long = {
        f"{name_of(path)}:{name}": lines
        for path in [*PRODUCT, *sources("tools")]
        for name, node in functions(path)
        if (lines := lines_of_code(node, signature=not is_command(path))) >= MOST_LINES
    }
    assert long == {}
