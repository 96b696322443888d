"""README and docs: blocks run or are checked, commands parse, links lead somewhere.

Every fenced block of a page is one of these, by its language:

python          run in order, in one namespace, in a folder with a `policy.json`. Names of the
                reader's own (`retriever`, `llm`, …) are stand-ins.
console         its `knowgate` commands are run in the same folder, between the blocks of Python,
                on a toy knowledge base, with the lexical scorer in the place of the default one.
csv, json, toml, yaml, promql   parsed.
text            output or a drawing.

A block that cannot be run offline is marked in the line above it, `<!-- skip: needs a GPU -->`.
It is checked all the same: imports and parameters exist, commands parse, files are there.
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import prometheus_client
import pyoxigraph
import pytest
import typer
import yaml
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from knowgate import Guard, Policy
from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration import CalibrationRecord
from knowgate.calibration.hidden_state_probe import ProbeSearch
from knowgate.calibration.risk import fit_policy
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.relevance.registry import PRESETS
from knowgate.offline_eval.testbed import default_world
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.adapters.langchain.agents import ScriptedAgentModel, searching
from tests.guard.engine.remembered import remembered_encoders
from tests.offline_eval.data.graph import endpoint_server
from tests.offline_eval.data.graph.endpoint_server import Endpoint
from tests.offline_eval.data.graph.graphs import WikidataLike
from tests.support.consoles import Consoles, command_line
from tests.support.openai_style import Server, serving
from tests.support.paths import ROOT
from tests.support.plots import light_plots
from tests.support.reader import modules, retrieve, write_files
from tests.support.toy_endpoint import reply_of

README = ROOT / "README.md"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GUIDES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
# What is said of the code as it is now, and what was said of it then.
CURRENT = [*GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/RESULTS.md"]
PAGES = [*CURRENT, ROOT / "CHANGELOG.md"]
# By name: what makes a scorer.
SCORERS: dict[str, Any] = sys.modules["knowgate.guard.signals.relevance.registry"]._SCORERS
FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- skip: (?P<skip>[^>]+) -->\n *)?```(?P<kind>\w*)\n"
    r"(?P<text>.*?)^ *```$",
    re.S | re.M,
)
# What each language of a block is checked by.
RUN = ("python", "console")
PARSED = ("csv", "json", "toml", "yaml", "promql")
SHOWN = ("text",)


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


@cache
def every_block(page: Path) -> tuple[Block, ...]:
    text = page.read_text(encoding="utf-8")
    return tuple(
        Block(page, text[: m.start("text")].count("\n"), m["kind"], dedent(m["text"]), m["skip"])
        for m in FENCE.finditer(text)
    )


def blocks(page: Path, kind: str) -> list[Block]:
    return [block for block in every_block(page) if block.kind == kind]


def lines_of(block: Block) -> list[str]:
    """What is typed at the prompt of a console; a quoted text may have several lines."""
    _, *typed = re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)
    return [
        line
        if line.count("'") == 2 and "\n" in line[line.index("'") : line.rindex("'")]
        else line.partition("\n")[0]
        for line in typed
    ]


def typed_commands(page: Path) -> list[str]:
    """The `$ knowgate …` lines of a page's consoles."""
    found = (line for block in blocks(page, "console") for line in lines_of(block))
    return [line.removeprefix("knowgate ") for line in found if line.startswith("knowgate ")]


def named_commands(page: Path) -> list[str]:
    """The commands named in a page's text, which may leave out required options."""
    found = re.findall(r"`knowgate ([^`]+)`", page.read_text(encoding="utf-8"))
    return [" ".join(line.split()) for line in found if "…" not in line and "COMMAND" not in line]


def parse(line: str, *, whole: bool) -> None:
    """Walk to the command and parse its options; `whole` asks for what is required, too."""
    command: Any = command_line()
    # With the settings of the root: commands keep the help option that they first had.
    context = typer.Context(command, info_name="knowgate", **command.context_settings)
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
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    for page in GUIDES[1:]:
        path = str(page.relative_to(ROOT / "docs"))
        assert path == "README.md" or f"({path})" in index, path


def test_links_lead_to_files_and_headings() -> None:
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith(("http://", "https://")):
                continue
            path, _, fragment = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), f"{name(page)}: {target}"
            assert not fragment or fragment in anchors(linked), f"{name(page)}: {target}"


def test_files_of_the_repository_that_a_page_names_exist() -> None:
    folders = (
        "adapters|benchmarks|calibration|docs|examples|guard|knowgate|offline_eval|tests|tools"
    )
    for page in CURRENT:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for path in re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w)", text):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"


def test_modules_and_names_that_a_page_gives_exist() -> None:
    for page in CURRENT:
        found = set(re.findall(r"`(knowgate(?:\.\w+)+)`", page.read_text(encoding="utf-8")))
        # A file, and groups of entry points.
        for dotted in found - {"knowgate.toml", "knowgate.scorers", "knowgate.estimators"}:
            assert resolves(dotted), f"{name(page)}: {dotted}"


def resolves(dotted: str) -> bool:
    try:
        importlib.import_module(dotted)
    except ImportError:
        module, _, attribute = dotted.rpartition(".")
        return hasattr(importlib.import_module(module), attribute)
    return True


def test_the_page_on_files_has_every_field_of_a_policy() -> None:
    text = (ROOT / "docs/reference/files.md").read_text(encoding="utf-8")
    rows = {name for row in re.findall(r"^\| (`[^|]*) \|", text, re.M) for name in row.split("`")}

    assert rows & Policy.model_fields.keys() == Policy.model_fields.keys()


@pytest.mark.slow
def test_every_command_exists_with_these_options() -> None:
    for page in GUIDES:
        for line in typed_commands(page):
            parse(line, whole=True)
        for line in named_commands(page):
            parse(line, whole=False)


@pytest.fixture(scope="module", autouse=True)
def _light() -> Iterator[None]:
    """Plots are not laid out, and what several pages encode is computed once."""
    with light_plots(), remembered_encoders():
        yield


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, Any]]:
    """The embedded scorers and language model, loaded once for all pages."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("bi_encoder", "late_interaction", "sufficiency"):
            patch.setitem(SCORERS, kind, cache(SCORERS[kind]))
        world = default_world()
        asked = [world.questions(fact, held_out=True)[0].text for fact in world.facts[:30]]
        lm = HuggingFaceLM(microworld_model_path(), max_new_tokens=8)
        yield {"lm": lm, "questions": asked, "right": [number % 2 == 0 for number in range(30)]}


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
    return fitted.model_copy(update={name: getattr(default, name) for name in bound}).sealed()


@pytest.fixture(scope="module")
def toy_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands of the pages read."""
    folder = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        consoles = Consoles(patch, {})
        write_files(folder, lambda line: consoles.run(line, "toy files"))
    return folder


@pytest.fixture
def servers(socket_enabled: None) -> Iterator[dict[str, str]]:
    """Addresses that the pages name, and where the tests have such a server."""
    store = pyoxigraph.Store()
    store.load(WikidataLike().text(), pyoxigraph.RdfFormat.N_TRIPLES)
    graph = Endpoint(store)
    with serving(Server(say=reply_of)) as model, endpoint_server.serving(graph):
        yield {
            "https://models.example/v1": model.url,
            "https://query.wikidata.org/sparql": graph.url,
        }


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
        "MODEL_FOLDER": microworld_model_path(),
        "question": "How much is a parking permit?",
        "passages": texts,
        "documents": documents,
        "vector_store": InMemoryVectorStore.from_texts(texts, DeterministicFakeEmbedding(size=8)),
    }


@dataclass(frozen=True)
class Setting:
    """What one page presupposes.

    Attributes:
        real: its commands ask the default scorer; else the lexical one is put in its place.
        lexical: its Python asks the lexical scorer for the default one, too.
        files: what a file or folder of the reader's is a copy of.
        given: stand-ins in the place of the usual ones.
        source: text of its Python → what it is replaced by.
    """

    real: bool = False
    lexical: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)


SETTINGS = {
    "docs/how-to/choose-a-scorer.md": Setting(
        given={"ONE": Sampling(n=1)},
        source={'(model="gpt-4o-mini"))': '(model="gpt-4o-mini")), sampling=ONE'},
    ),
    "docs/how-to/calibrate.md": Setting(lexical=True, given={"retriever": retrieve}),
    "docs/how-to/score-faster.md": Setting(real=True),
    # One layer and one penalty: what is chosen among is not what the page shows.
    "docs/reference/confidence-estimators.md": Setting(
        given={"ONE": ProbeSearch((3,), (0.01,), 2)},
        source={"questions, right)": "questions, right, search=ONE)"},
    ),
    "docs/how-to/look-and-label.md": Setting(
        real=True,
        files={"run": "replies"},
        given={"reply_id": "alpha·direct·basic/parks-0/left_out"},
    ),
    "docs/how-to/use-local-models.md": Setting(
        given={
            "prompts_with_context": ["Berna lives in Ask. Where does Berna live?"],
            "prompts_without_context": ["Where does Berna live?"],
        },
        source={'"Qwen/Qwen2.5-7B-Instruct"': "MODEL_FOLDER"},
    ),
    # Its 178 questions would be measured for seconds.
    "docs/tutorial/first-guard.md": Setting(
        source={'sample_knowledge_base_path(), "kb': 'sample_knowledge_base_path(), "sample'}
    ),
    "docs/how-to/test-before-release.md": Setting(
        files={"run": "replies"}, given={"chain": RunnableLambda(lambda given: "At nine.")}
    ),
}

# What asks a model over the network, or is a server; all of it stays on this machine.
LISTENS = re.compile(r"openai:|/sparql|knowgate (serve|play|view|label)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in GUIDES if any(b.kind in RUN and not b.skip for b in every_block(page))],
    ids=name,
)
def test_the_blocks_of_a_page_run(
    page: Path,
    stand_ins: dict[str, Any],
    toy_files: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = [block for block in every_block(page) if block.kind in RUN and not block.skip]
    setting = SETTINGS.get(name(page), Setting())
    stand_ins |= setting.given
    for module, content in modules().items():
        monkeypatch.setitem(sys.modules, module, content)
    servers: dict[str, str] = {}
    if any(LISTENS.search(block.text) for block in running):
        servers = request.getfixturevalue("servers")
        monkeypatch.setenv("OPENAI_BASE_URL", servers["https://models.example/v1"])
    monkeypatch.setattr("opentelemetry.trace.set_tracer_provider", lambda provider: None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    reranker = replace(PRESETS["ms-marco-MiniLM-L6-v2"], hub_id="reranker")
    presets = {**PRESETS, "ms-marco-MiniLM-L6-v2": reranker}
    monkeypatch.setattr("knowgate.guard.signals.relevance.registry.PRESETS", presets)
    if setting.lexical:
        monkeypatch.setitem(SCORERS, "sufficiency", SCORERS["lexical"])
    if any(block.kind == "console" for block in running):
        copy_files(toy_files, setting, [line for block in running for line in lines_of(block)])
    consoles = Consoles(monkeypatch, servers, real=setting.real)
    for block in running:
        if block.kind == "python":
            # Lines are counted as in the page, so that a failure points to it.
            source = "\n" * block.line + block.text
            for old, new in setting.source.items():
                source = source.replace(old, new)
            code = compile(source, name(page), "exec", dont_inherit=True)
            exec(code, stand_ins)
        else:
            for line in lines_of(block):
                consoles.run(line, f"{name(page)}:{block.line}")
    if "monitor" in stand_ins:
        stand_ins["monitor"].close()


def copy_files(toy_files: Path, setting: Setting, lines: list[str]) -> None:
    """Copy the reader's files into the working directory, but for what the page itself makes."""
    keep = Path("policy.json").read_bytes() if setting.real else None
    shutil.copytree(toy_files, ".", dirs_exist_ok=True)
    if keep is not None:
        Path("policy.json").write_bytes(keep)
    for to, what in setting.files.items():
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(toy_files / what, to)
    read: set[str] = set()
    for line in lines:
        words = shlex.split(line, comments=True)
        made = {word for option, word in pairwise(words) if option in ("--out", "--output")}
        for path in made - read - set(setting.files):
            shutil.rmtree(path, ignore_errors=True)
        read |= set(words)


def test_every_other_block_is_what_it_says() -> None:
    for page in GUIDES:
        for block in every_block(page):
            where = f"{name(page)}:{block.line}"
            assert block.kind in (*RUN, *PARSED, *SHOWN), f"{where}: what is {block.kind!r}?"
            if block.kind == "json":
                text = re.sub(r",?\s*…", "", block.text)
                one = json.loads if text.startswith("{\n") or "}\n" not in text[:-1] else json_lines
                assert one(text), where
            elif block.kind == "csv":
                assert len({len(row) for row in csv.reader(block.text.splitlines())}) == 1, where
            elif block.kind == "toml":
                tomllib.loads(block.text)
            elif block.kind == "yaml":
                assert yaml.safe_load(block.text), where
            elif block.kind == "promql":
                exported = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
                for metric in re.findall(r"knowgate_\w+", block.text):
                    assert f"`{metric}" in exported, f"{where}: {metric}"
            elif block.kind == "python" and block.skip:
                check_names(block, where)
            elif block.kind == "console" and block.skip:
                for line in lines_of(block):
                    for command in line.split(" && "):
                        check_command(command, where)


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def check_names(block: Block, where: str) -> None:
    """Check that what a block imports from knowgate exists and takes the named parameters."""
    taken: dict[str, Any] = {}
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("knowgate"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{where}: {node.module}.{alias.name}"
                taken[alias.asname or alias.name] = getattr(module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            root, _, rest = ast.unparse(node.func).partition(".")
            called = taken.get(root)
            for part in rest.split(".") if rest else ():
                called = getattr(called, part, None)
            if called is not None:
                parameters = inspect.signature(called).parameters
                open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
                unknown = {word.arg for word in node.keywords if word.arg} - parameters.keys()
                assert open_ended or not unknown, f"{where}: {unknown}"


def check_command(line: str, where: str) -> None:
    """Check a line that is not run: the command, its options and the files that it names."""
    line = re.sub(r"\$\([^)]*\)", "x", line)
    words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
    program, *rest = words
    program = Path(program).name
    if program == "knowgate":
        parse(shlex.join(rest), whole=True)
    elif program == "make":
        assert f"\n{rest[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), where
    elif program == "pip":
        [extras] = re.findall(r"(?:knowgate|\.|x)\[([\w,-]+)\]", line)
        assert set(extras.split(",")) <= PYPROJECT["project"]["optional-dependencies"].keys(), where
    elif program == "python":
        script = ROOT / (rest[1].replace(".", "/") + ".py" if rest[0] == "-m" else rest[0])
        source = "".join(file.read_text("utf-8") for file in script.parent.glob("*.py"))
        assert script.is_file(), where
        # Those of modules are tested with the tools.
        unknown = [word for word in rest if word.startswith("--") and word not in source]
        assert rest[0] == "-m" or not unknown, where
    else:
        assert program in ("curl", "cp", "docker", "gunicorn", "jq", "uvicorn"), (
            f"{where}: {program}"
        )
        for path in re.findall(r"/v1/[\w/]+", line):
            sources = "".join(p.read_text("utf-8") for p in (ROOT / "adapters/serve").glob("*.py"))
            assert path in sources, f"{where}: {path}"


def test_blocks_are_run_where_they_can_be() -> None:
    every = [block for page in GUIDES for block in every_block(page)]
    run = [block for block in every if block.kind in RUN and not block.skip]
    checked = [block for block in every if block.kind in RUN and block.skip]

    assert not [block for block in every if block.skip and block.kind not in RUN]
    # Raised with each new page; a block that is no longer run has to lower it.
    assert len(run) >= 131, f"{len(run)} run, {len(checked)} checked"


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


MEASURED = ROOT / "docs/measured.md"


def measured_rows() -> list[dict[str, str]]:
    """The rows of the tables of docs/measured.md that name a command, by their headings."""
    found: list[dict[str, str]] = []
    head: list[str] = []
    for line in MEASURED.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif not set(line) <= set("|-"):
            assert len(cells) == len(head), line
            found.append(dict(zip(head, cells, strict=True)))
    return [row for row in found if "command" in row]


def test_every_measured_number_names_a_command_that_exists_and_a_date() -> None:
    rows = measured_rows()
    assert len(rows) > 40
    for row in rows:
        commands = re.findall(r"`([^`]+)`", row["command"])
        assert commands, row
        for command in commands:
            if command.startswith("knowgate "):
                parse(command.removeprefix("knowgate "), whole=False)
            else:
                assert (ROOT / command.split()[1]).is_file(), command
        for day in row["date"].split(", ") if row["date"] else ():
            date.fromisoformat(day)


def test_the_numbers_of_the_readme_are_among_the_measured_ones() -> None:
    prose = FENCE.sub("", README.read_text(encoding="utf-8"))
    quoted = set(re.findall(r"(?<![\w.])\.\d\d+", prose))
    measured = MEASURED.read_text(encoding="utf-8")
    assert quoted
    assert not {number for number in quoted if number not in measured}
