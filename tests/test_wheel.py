"""The wheel has every file of the checkout, and the guard works with it and no extras."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("guard", "calibration", "adapters", "offline_eval")

GUARDED_CHAIN = """
import knowgate
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from knowgate.adapters.langchain import GuardedRAG
from knowgate.calibration.monitoring import DecisionMonitor
from knowgate.guard import DecisionLog, Guard, Policy
from knowgate.guard.signals.relevance import load_scorer

scorer = load_scorer("sufficiency")
guard = Guard(Policy.for_scorer(scorer, threshold=0.5), scorer=scorer)
model = RunnableLambda(lambda _: "prompt") | FakeListChatModel(responses=["At nine."])
page = Document("The library opens at nine in the morning on weekdays.")
chain = GuardedRAG(
    guard=guard,
    retriever=RunnableLambda(lambda _: [page]),
    with_context=model,
    closed_book=model,
)
for question in ("When does the library open on weekdays?", "Who wrote the opera Tosca?"):
    found = chain.invoke(question)
    print(found.decision.route.value, found.answer == "At nine.")
guard.policy.save("policy.json")
monitor = DecisionMonitor(guard.policy, window=100, risk=0.1)
loaded = Guard.load("policy.json", observers=[monitor, DecisionLog("decisions")])
print(loaded.decide("When does the library open?", [page.page_content]).route.value)
for right in (True, True, False):
    monitor.feedback("follow_context", right=right)
print(monitor.report().decisions)
print(Guard.default().decide("Who wrote the opera Tosca?", [page.page_content]).route.value)
print(knowgate.__file__)
"""
VERSION = """
import sys
sys.path += sys.argv[1:]
import knowgate.offline_eval.cli
sys.argv[1:] = ["--version"]
knowgate.offline_eval.cli.main()
"""
IMPORT_ALL = """
import importlib, sys
for name in sys.stdin.read().split():
    importlib.import_module(name)
"""
# Only imported once an application has set up OpenTelemetry.
TRACING = "knowgate.guard._tracing"
# Modules that rest on an extra, and public names that are looked up in them on first use.
NEED_AN_EXTRA = {
    "knowgate.adapters.langchain._agent_middleware": (
        "adapters.langchain.GuardMiddleware",
        "[agents]",
    ),
    "knowgate.adapters.serve._": ("adapters.serve.create_app", "[serve]"),
    "knowgate.calibration.risk": ("calibration.risk.fit_policy", "[eval]"),
}
LOOK_UP = """
import importlib, sys
from knowgate.guard.errors import MissingDependencyError
for line in sys.stdin.read().split():
    package, _, name = line.rpartition(".")
    try:
        getattr(importlib.import_module(f"knowgate.{package}"), name)
    except MissingDependencyError as error:
        print(error)
"""


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the tracked files as they are now, built without network."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("wheel")
    git("checkout-index", "--all", f"--prefix={folder}/checkout/")
    for name in git("diff", "--name-only", "--diff-filter=M").split():
        shutil.copyfile(ROOT / name, folder / "checkout" / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        cwd=folder / "checkout",
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def required(wheel: Path) -> list[importlib.metadata.Distribution]:
    """What an installation of the wheel without extras brings along, from what is installed."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    waiting = [(line, "") for line in metadata.get_all("Requires-Dist", [])]
    seen: set[tuple[str, str]] = set()
    found: dict[str, importlib.metadata.Distribution] = {}
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # E.g. what a build of torch for another device requires.
            pytest.skip(f"{line} is required, and not installed here")
        for wanted in {"", *requirement.extras} - {had for known, had in seen if known == name}:
            seen.add((name, wanted))
            waiting += [(below, wanted) for below in found[name].requires or []]
    return list(found.values())


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment: the wheel and what it requires, no extras.

    What it requires is linked from this environment, so that nothing is downloaded;
    pip fails if a requirement is not among it.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    for distribution in required(wheel):
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            link = site / top
            if not link.is_symlink():
                link.symlink_to(str(distribution.locate_file(top)))
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python)),
            *("install", "--quiet", "--no-index", "--no-compile", str(wheel)),
        ],
        check=True,
    )
    return python


def run_in(python: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the environment's interpreter where no checkout can be imported."""
    return subprocess.run(
        [str(python), "-I", *arguments],
        cwd=python.parent,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def modules(*folders: str) -> Iterator[str]:
    for line in git("ls-files", "--", *folders).split():
        if line.endswith(".py"):
            yield ".".join(("knowgate", *Path(line).with_suffix("").parts)).removesuffix(
                ".__init__"
            )


@pytest.mark.slow
def test_every_tracked_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    listed = git("ls-files", "--", *PACKAGES, "knowgate").split()
    tracked = {
        name if name.startswith("knowgate/") else f"knowgate/{name}"
        for name in listed
        if name not in {f"knowgate/{link}" for link in PACKAGES}
    }

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())

    assert tracked - packed == set()
    assert not [name for name in packed if not name.startswith("knowgate")]


@pytest.mark.slow
def test_without_extras_a_chain_is_guarded_by_the_embedded_scorer(python: Path) -> None:
    done = run_in(python, "-c", GUARDED_CHAIN)

    assert done.returncode == 0, done.stderr
    *routes, file = done.stdout.splitlines()
    assert routes == ["follow_context True", "abstain False", "follow_context", "1", "abstain"]
    assert Path(file).is_relative_to(python.parents[1])


@pytest.mark.slow
def test_without_extras_everything_but_the_offline_evaluation_can_be_imported(python: Path) -> None:
    names = [
        name
        for name in modules("guard", "calibration", "adapters")
        if not name.startswith((TRACING, *NEED_AN_EXTRA))
    ]
    assert len(names) > 100

    done = run_in(python, "-c", IMPORT_ALL, text=" ".join(names))

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_its_extra_a_public_name_says_which_one(python: Path) -> None:
    names, extras = zip(*NEED_AN_EXTRA.values(), strict=True)

    done = run_in(python, "-c", LOOK_UP, text=" ".join(names))

    assert done.returncode == 0, done.stderr
    hints = done.stdout.splitlines()
    assert len(hints) == len(extras)
    assert all(extra in hint for extra, hint in zip(extras, hints, strict=True)), hints


def test_with_the_packages_of_the_extra_the_command_line_starts_from_the_wheel(
    python: Path,
) -> None:
    here = [entry for entry in sys.path if entry.endswith("site-packages")]

    done = run_in(python, "-c", VERSION, *here)

    assert done.stdout == f"knowgate {importlib.metadata.version('knowgate')}\n", done.stderr


@pytest.mark.parametrize("arguments", [["-m", "knowgate", "doctor"], ["SCRIPT", "--help"]])
def test_without_extras_the_command_line_names_the_command_in_one_line(
    python: Path, arguments: list[str]
) -> None:
    script = str(python.parent / "knowgate")

    done = run_in(python, *[script if word == "SCRIPT" else word for word in arguments])

    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("`pip install 'knowgate[eval]'`")
