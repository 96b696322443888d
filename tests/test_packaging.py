"""What the wheel contains and what the packages export, checked against the disk."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

import knowgate
from knowgate.guard.errors import INSTALL_HINTS
from tests.support.paths import ROOT
from tests.support.sources import forget, inner, parsed, statements

TOP = ("adapters", "calibration", "guard", "offline_eval")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Frees the trees at the end."""
    yield
    forget()


def files() -> Iterator[Path]:
    """Every file of the product's packages."""
    for name in TOP:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield path


def package_of(folder: Path) -> str:
    return ".".join(("knowgate", *folder.relative_to(ROOT).parts))


def packages() -> dict[str, str]:
    """Package → folder, for every folder with an `__init__.py`."""
    found = {"knowgate": "knowgate"}
    for path in files():
        if path.name == "__init__.py":
            found[package_of(path.parent)] = path.parent.relative_to(ROOT).as_posix()
    return found


def modules() -> list[Path]:
    return [path for path in files() if path.suffix == ".py"]


def test_the_packages_of_the_wheel_are_those_on_disk() -> None:
    where = SETUPTOOLS["packages"]["find"]
    assert where["namespaces"] is False

    found = find_packages(str(ROOT), include=where["include"])

    assert sorted(found) == sorted(packages())


@pytest.mark.parametrize("name", TOP)
def test_the_import_namespace_links_to_the_top_folders(name: str) -> None:
    link = ROOT / "knowgate" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in modules()}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def test_every_pattern_for_bundled_files_matches_something() -> None:
    known = packages()
    for package, patterns in SETUPTOOLS["package-data"].items():
        for pattern in patterns:
            folders = known.values() if package == "*" else [known[package]]
            assert any(list((ROOT / folder).glob(pattern)) for folder in folders), pattern


def test_what_a_package_exports_is_there() -> None:
    for package in sorted(packages()):
        module = importlib.import_module(package)
        names = getattr(module, "__all__", [])
        assert len(names) == len(set(names))
        assert not [name for name in names if not hasattr(module, name)]


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "naming", "words", "needs_met"}
    found = [
        path
        for path in files()
        if vague & {part.removesuffix(".py").lstrip("_") for part in path.relative_to(ROOT).parts}
    ]
    assert found == []


@pytest.mark.slow
def test_nothing_is_unpickled() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for path in modules():
        for node in statements(path):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not banned & {name.split(".")[0] for name in names}, path
        for given in keywords(path, "trust_remote_code", "allow_pickle"):
            assert isinstance(given.value, ast.Constant), (path, given.value.lineno)
            assert given.value.value is False, (path, given.value.lineno)


def keywords(path: Path, *names: str) -> Iterator[ast.keyword]:
    """The keyword arguments of these names in the calls of a file."""
    text = path.read_text(encoding="utf-8")
    if any(name in text for name in names):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.keyword) and node.arg in names:
                yield node


def test_no_file_is_longer_than_seven_hundred_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in modules()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 700
    }
    assert long == {}


def distributions(*requirements: str) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


BASE = distributions(*PYPROJECT["project"]["dependencies"])
EXTRAS = {
    name: distributions(*lines)
    for name, lines in PYPROJECT["project"]["optional-dependencies"].items()
}
# pydantic pins its core to one version.
MODULES = {**importlib.metadata.packages_distributions(), "pydantic_core": ["pydantic"]}


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """All statements but what stands under `if TYPE_CHECKING` or in `try … except ImportError`."""
    for child in inner(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Try) and any(
            "ImportError" in ast.unparse(handler.type) for handler in child.handlers if handler.type
        ):
            continue
        yield child
        yield from at_run_time(child)


def third_party(path: Path) -> set[str]:
    """The modules of other distributions that a file imports by a statement."""
    names = set()
    for node in at_run_time(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"knowgate"}


@pytest.mark.slow
def test_what_the_packages_import_is_declared() -> None:
    def declared(path: Path) -> set[str]:
        parts = path.relative_to(ROOT).parts
        if parts[:2] == ("adapters", "serve"):  # whose types are those of Starlette
            return BASE | EXTRAS["serve"] | {"starlette"}
        if parts == ("guard", "_tracing.py"):  # imported where the application has imported it
            return BASE | EXTRAS["otel"]
        if parts[:2] == ("offline_eval", "web"):
            return BASE | EXTRAS["eval"] | EXTRAS["serve"] | {"starlette"}
        if parts[:2] in {("adapters", "huggingface"), ("calibration", "training")}:
            return BASE | EXTRAS["hf"]
        if parts[:2] == ("offline_eval", "testbed"):  # whose model is one of Hugging Face
            return BASE | EXTRAS["eval"] | EXTRAS["hf"]
        watches = parts[:2] == ("calibration", "monitoring")
        offline = parts[0] in {"calibration", "offline_eval"} and not watches
        return BASE | EXTRAS["eval"] if offline else BASE

    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name in third_party(path)
        if not declared(path) & {canonicalize_name(found) for found in MODULES.get(name, [name])}
    ]
    assert wrong == []


@pytest.mark.parametrize(("module", "hint"), sorted(INSTALL_HINTS.items()))
def test_the_hint_for_a_missing_module_names_what_brings_it(module: str, hint: str) -> None:
    requirement = Requirement(hint)
    declared = {requirement.name}
    if requirement.name == "knowgate":
        declared = BASE.union(*(EXTRAS[extra] for extra in requirement.extras))
    assert declared & {canonicalize_name(name) for name in MODULES.get(module, [module])}


def test_every_package_of_the_offline_evaluation_is_looked_for_before_it_starts() -> None:
    looked_for = {module for module, hint in INSTALL_HINTS.items() if hint == "knowgate[eval]"}
    found = {canonicalize_name(name) for module in looked_for for name in MODULES[module]}
    assert found == EXTRAS["eval"]


def test_one_extra_has_all_the_others_but_what_is_asked_for_by_name() -> None:
    [everything] = PYPROJECT["project"]["optional-dependencies"]["all"]
    # What exports models, serves on a GPU only, builds the documentation site, or runs notebooks.
    by_name = {"docs", "notebooks", "onnx-export", "gpu"}
    assert Requirement(everything).extras == set(EXTRAS) - {"all", "dev"} - by_name


def test_the_version_is_written_down_once_and_is_the_installed_one() -> None:
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "knowgate._version.__version__"}
    assert importlib.metadata.version("knowgate") == knowgate.__version__


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    assert (ROOT / "knowgate" / "py.typed").is_file()
    assert "py.typed" in SETUPTOOLS["package-data"]["*"]
