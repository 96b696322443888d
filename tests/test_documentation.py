"""README and docs: the Python runs, the commands parse, the links lead somewhere.

The Python blocks of a page run in order, in one namespace, in a folder with a
`policy.json`. Names of the reader's own (`retriever`, `llm`, …) are stand-ins. A block
that needs more is marked in the line above it: `<!-- skip: needs labelled questions -->`.
"""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import typer
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from knowgate import Guard, Policy
from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import fit_policy
from knowgate.guard.signals import relevance
from knowgate.offline_eval.cli import app
from knowgate.offline_eval.testbed import default_world, microworld_model_path
from tests.adapters.langchain.agents import ScriptedAgentModel, searching
from tests.support.paths import ROOT

README = ROOT / "README.md"
GUIDES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks/RESULTS.md"]
FENCE = re.compile(r"(?:<!-- skip: (?P<skip>[^>]+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str
    skip: str | None


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, kind: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: m.start("text")].count("\n"), m["kind"], m["text"], m["skip"])
        for m in FENCE.finditer(text)
        if m["kind"] == kind
    ]


def typed_commands(page: Path) -> list[str]:
    """The `$ knowgate …` lines of a page's consoles."""
    consoles = "\n".join(block.text for block in blocks(page, "console")).replace("\\\n", " ")
    return re.findall(r"^\$ knowgate (.*)$", consoles, re.MULTILINE)


def named_commands(page: Path) -> list[str]:
    """The commands named in a page's text, which may leave out required options."""
    found = re.findall(r"`knowgate ([^`]+)`", page.read_text(encoding="utf-8"))
    return [" ".join(line.split()) for line in found if "…" not in line and "COMMAND" not in line]


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


def parse(line: str, *, whole: bool) -> None:
    """Walk to the command and parse its options; `whole` asks for what is required, too."""
    command: Any = command_line()
    context = typer.Context(command, info_name="knowgate")
    words = shlex.split(line, comments=True)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        # Commands of suites are made when they are asked for.
        found = command.get_command(context, words[0])
        assert found is not None, f"no such command: {words[0]}"
        command, words = found, words[1:]
        context = typer.Context(command, parent=context, info_name=command.name)
    given, _, _ = command.make_parser(context).parse_args(args=words)
    for parameter in command.params:
        value = given.get(parameter.name)
        assert value or not (whole and parameter.required), f"{parameter.name} is missing"
        kind = parameter.type_descriptor.annotation
        if value is not None and isinstance(kind, type) and issubclass(kind, Enum):
            kind(value)


def anchor(heading: str) -> str:
    """The fragment that GitHub makes of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    for page in GUIDES[1:]:
        path = str(page.relative_to(ROOT / "docs"))
        assert path == "README.md" or f"({path})" in index, path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, fragment = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not fragment or fragment in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    text = page.read_text(encoding="utf-8")
    folders = (
        "adapters|benchmarks|calibration|docs|examples|guard|knowgate|offline_eval|tests|tools"
    )
    for path in re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w)", FENCE.sub("", text)):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_modules_and_names_that_a_page_gives_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    for dotted in set(re.findall(r"`(knowgate(?:\.\w+)+)`", page.read_text(encoding="utf-8"))):
        assert resolves(dotted), dotted


def resolves(dotted: str) -> bool:
    try:
        importlib.import_module(dotted)
    except ImportError:
        module, _, attribute = dotted.rpartition(".")
        return hasattr(importlib.import_module(module), attribute)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_command_exists_with_these_options(page: Path) -> None:
    for line in typed_commands(page):
        parse(line, whole=True)
    for line in named_commands(page):
        parse(line, whole=False)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_python_block_compiles(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block.text, f"{name(page)}:{block.line}", "exec")


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, Any]]:
    """The embedded scorer and language model, loaded once for all pages."""
    with pytest.MonkeyPatch.context() as patch:
        loaded = cache(relevance.load_scorer)
        # By its kind: the fingerprint of a policy cannot be looked up.
        by_kind = lambda name, **options: loaded(getattr(name, "kind", name), **options)  # noqa: E731
        patch.setattr(relevance, "load_scorer", by_kind)
        world = default_world()
        asked = [world.questions(fact, held_out=True)[0].text for fact in world.facts[:30]]
        lm = HuggingFaceLM(microworld_model_path(), max_new_tokens=8)
        yield {"lm": lm, "questions": asked}


@pytest.fixture(scope="module")
def policy(models: dict[str, Any]) -> Policy:
    """A certified policy on the embedded scorer, with histograms for a monitor."""
    default = Guard.default(metrics=False).policy
    records = [
        CalibrationRecord(
            question_id=f"q{i}",
            relevance=0.95 if i % 3 else 0.2,
            confidence=None,
            context_right=i % 3 != 0,
            closed_book_right=False,
        )
        for i in range(300)
    ]
    fitted = fit_policy(records, risk=0.1, delta=0.1).policy
    bound = {"scorer", "aggregator", "relevance_calibrator"}
    return fitted.model_copy(update={name: getattr(default, name) for name in bound})


@pytest.fixture
def stand_ins(
    models: dict[str, Any], policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What the pages take for the reader's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prometheus_client, "start_http_server", lambda *_, **__: None)
    policy.save("policy.json")
    texts = ["A parking permit costs twelve euros a month.", "The library opens at nine."]
    documents = [Document(text, metadata={"date": date(2020, 1, 1)}) for text in texts]
    return models | {
        "guard": Guard.load("policy.json", metrics=False),
        "retriever": RunnableLambda(lambda question: documents),
        "prompt": ChatPromptTemplate.from_template("{context} {question}"),
        "closed_book_prompt": ChatPromptTemplate.from_template("{question}"),
        "llm": RunnableLambda(lambda prompt: "Twelve euros."),
        "agent_model": ScriptedAgentModel(speak=searching),
        "chat_model": FakeListChatModel(responses=["Twelve euros."]),
        "question": "How much is a parking permit?",
        "passages": texts,
        "documents": documents,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in GUIDES if any(not b.skip for b in blocks(page, "python"))], ids=name
)
def test_the_python_of_a_page_runs(page: Path, stand_ins: dict[str, Any]) -> None:
    for block in blocks(page, "python"):
        if not block.skip:
            # Lines are counted as in the page, so that a failure points to it.
            source = "\n" * block.line + block.text
            code = compile(source, name(page), "exec", dont_inherit=True)
            exec(code, stand_ins)
    if "monitor" in stand_ins:
        stand_ins["monitor"].close()


@pytest.mark.slow
def test_the_metrics_example_of_the_readme_shows_the_abstention_rate() -> None:
    [example] = [b.text for b in blocks(README, "python") if "start_http_server" in b.text]

    printed = subprocess.run(
        [sys.executable, "-c", example.replace("9464", "0")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert len(example.strip().split("\n")) <= 10
    assert printed == "abstention rate 0.67\n"
