"""Golden artefacts: what every command leaves on small inputs, stored and compared.

    python tests/golden/golden.py write [SCENARIO …]    store what the code does now
    python tests/golden/golden.py check [SCENARIO …]    compare, print differences, exit code 1

What changes from run to run (times, folders, versions) is left out before storing; numbers
are compared with a tolerance, counts and decisions exactly. Processors differ in the last digits
of what a network computes: such numbers have a wider tolerance, hashes of them only a form, and
inputs must not bring a decision near enough to its threshold to flip. Names that change on
purpose go into `renamed.py`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INPUTS = HERE / "inputs"
EXPECTED = HERE / "expected"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for _name, _value in (
        ("HF_HUB_OFFLINE", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("OMP_WAIT_POLICY", "passive"),
    ):
        os.environ.setdefault(_name, _value)

from tests.golden.renamed import ADDED, RENAMED, Rename  # noqa: E402
from tests.guard.engine.remembered import remembered_encoders  # noqa: E402
from tests.support.plots import light_plots  # noqa: E402

MOST_SHOWN = 40
# Values of these keys say when, where or by which version something was made.
VOLATILE = frozenset(
    {
        "at",
        "created",
        "created_at",
        "created_by",
        "creation_timestamp",
        "duration",
        "evaluation_timestamp",
        "finished_at",
        "knowgate_version",
        "median_seconds",
        "pid",
        "seconds",
        "started_at",
        "timestamp",
        "timings",
        "version",
        "versions",
        # Of files that hold a version, or are written by the code that is measured.
        "guard_sha256",
        "policy_sha256",
        # Of numbers to the last bit.
        "digest",
    }
)
# Likewise, of each row of a run.
_CHAIN = "chain_digest"
# Values of these keys are sentences for people, whose wording may be edited.
PROSE = frozenset(
    {
        "caution",
        "detail",
        "headline",
        "loss",
        "method",
        "not_covered",
        "note",
        "notes",
        "population",
        "statement",
        "words",
    }
)
# Values of these keys are hashes of numbers to the last bit.
HASHES_OF_NUMBERS = frozenset({"calibration_set_sha256", "measured_by"})
_LONGEST_CELL = 90


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far numbers with a fraction may be from those that are stored.

    Attributes:
        relative: to the stored number.
        absolute: at least so far, for numbers near zero.
        printed: numbers inside texts may differ too, by one in their last place.
    """

    relative: float
    absolute: float
    printed: bool = False

    def near(self, expected: float, actual: float) -> bool:
        """Whether the two are the same but for the last digits."""
        return abs(expected - actual) <= max(self.absolute, self.relative * abs(expected))


EXACT = Tolerance(1e-6, 1e-9)
# Of float32 on different processors, where nothing downstream amplifies the differences.
NETWORK = Tolerance(1e-3, 1e-5, printed=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done in a scenario's folder.

    Attributes:
        line: arguments of `knowgate`, as one would type them, with `> FILE` for the output;
            `@copy A B` copies.
        call: in place of a line: a function whose result is kept; it may be about anything
            that can be written as JSON.
        numbers: keep the numbers that the command prints.
        options: keep the names of options that the command prints.
    """

    line: str = ""
    call: Callable[[Path], Any] | None = None
    numbers: bool = False
    options: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps, and what is kept of what they leave.

    Attributes:
        name: also of the file in `expected/`.
        steps: done one after another.
        keep: patterns of files in the folder that are kept.
        without: names of fields that are left out of them, where they are too much.
        slow: takes a second or more.
        tolerance: of numbers with a fraction; `NETWORK` where they come out of a network.
        within: what surrounds the steps.
    """

    name: str
    steps: Sequence[Step]
    keep: Sequence[str] = ()
    without: Sequence[str] = ()
    slow: bool = False
    tolerance: Tolerance = EXACT
    within: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


@dataclass(slots=True)
class Taken:
    """What one scenario came to."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Steps and files."""
        return {"steps": self.steps, "files": self.files}


# ---------------------------------------------------------------- running


def take(scenario: Scenario) -> dict[str, Any]:
    """Run a scenario in a new folder and return what is kept of it, normalised."""
    with tempfile.TemporaryDirectory(prefix="golden") as name:
        folder = Path(name).resolve()
        shutil.copytree(INPUTS, folder / "in")
        with _inside(folder), light_plots(), remembered_encoders(), scenario.within():
            taken = Taken(steps=[_done(step, folder) for step in scenario.steps])
        for path in _kept(folder, scenario.keep):
            taken.files[path.relative_to(folder).as_posix()] = read_artefact(path)
        found = normalised(taken.as_json(), folder, frozenset(scenario.without))
    text = json.dumps(found, ensure_ascii=False, allow_nan=True)
    return json.loads(text)  # type: ignore[no-any-return]


def _kept(folder: Path, patterns: Sequence[str]) -> list[Path]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)


def _done(step: Step, folder: Path) -> dict[str, Any]:
    if step.call is not None:
        return {"call": step.call.__name__, "result": step.call(folder)}
    words = shlex.split(step.line)
    if words[:1] == ["@copy"]:
        source, copy = (folder / word for word in words[1:])
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        else:
            shutil.copy(source, copy)
        return {"line": step.line}
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], folder / words[-1]
    code, out, err = knowgate(words)
    if target is not None:
        target.write_text(out, encoding="utf-8")
    found: dict[str, Any] = {"line": step.line, "code": code}
    if code not in (0, 1, 2) or "Traceback" in err:
        found["stderr"] = err[-2000:]
    if step.numbers and target is None:
        found["numbers"] = [float(word) for word in _NUMBER.findall(out)]
    if step.options:
        found["options"] = sorted(set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", out)))
    return found


_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w.]*[A-Za-z/])")


def knowgate(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run `knowgate ARGUMENTS` in this process; exit code, standard output and error."""
    from knowgate.__main__ import main

    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["knowgate", *arguments]
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: Any = 0
    except SystemExit as stopped:
        code = stopped.code
    finally:
        sys.argv = before
        signal.signal(signal.SIGTERM, handler)
    return (
        (code if isinstance(code, int) else 0 if code is None else 1),
        out.getvalue(),
        (err.getvalue()),
    )


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The folder as working directory, wide output, one thread; all put back afterwards."""
    import torch

    where, threads, columns = Path.cwd(), torch.get_num_threads(), os.environ.get("COLUMNS")
    sys.path.insert(0, str(INPUTS))
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.chdir(where)
        sys.path.remove(str(INPUTS))
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns


# ---------------------------------------------------------------- reading


def read_artefact(path: Path) -> Any:
    """A file as JSON values; of a page for people only headings and table cells."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".json":
            return json.loads(text)
        case ".jsonl":
            return _in_order(path, [json.loads(line) for line in text.splitlines() if line])
        case ".csv":
            return _table(text)
        case ".xml":
            return _element(ElementTree.fromstring(text))
        case ".html":
            page = _Page()
            page.feed(text)
            return _untimed(page.found)
        case ".md":
            return _untimed(_markdown(text))
    return text


def _in_order(path: Path, rows: list[Any]) -> list[Any]:
    # Calls under way at once end in any order.
    key = {"replies.jsonl": "reply_id", "judgements.jsonl": "judgement_id"}.get(path.name)
    return sorted(rows, key=lambda row: str(row[key])) if key else rows


def _table(text: str) -> list[list[str]]:
    head, *rows = csv.reader(io.StringIO(text))
    found = [[_cell(*pair) for pair in zip(head, row, strict=True)] for row in rows]
    return [head, *sorted(found)]


def _cell(name: str, value: str) -> str:
    return f"<{name}>" if value and _is_volatile(name) else value


def _element(node: ElementTree.Element) -> list[Any]:
    # The text of an element is prose, except that it is there.
    attributes = {k: v for k, v in node.attrib.items() if k != "message"}
    return [node.tag, attributes, *(_element(child) for child in node)]


class _Page(HTMLParser):
    """Headings and rows of tables, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.found.append([])
        elif re.fullmatch(r"h[1-6]|t[dh]", tag):
            self._text = []

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._text is None:
            return
        words = _shortened(" ".join("".join(self._text).split()))
        if re.fullmatch(r"h[1-6]", tag):
            self.found.append(f"{tag}: {words}")
            self._text = None
        elif tag in ("td", "th"):
            if self.found and isinstance(self.found[-1], list):
                self.found[-1].append(words)
            self._text = None


def _markdown(text: str) -> list[Any]:
    found: list[Any] = []
    for line in text.splitlines():
        if heading := re.match(r"(#{1,6}) (.*)", line):
            found.append(f"h{len(heading[1])}: {_shortened(heading[2].strip())}")
        elif line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found.append([_shortened(cell.strip()) for cell in cells])
    return found


def _untimed(found: list[Any]) -> list[Any]:
    """Without what stands below a column's head that says seconds."""
    timed: set[int] = set()
    for number, row in enumerate(found):
        if not isinstance(row, list):
            continue
        if number == 0 or not isinstance(found[number - 1], list) or _names_seconds(row):
            timed = {n for n, cell in enumerate(row) if "second" in cell.lower()}
            continue
        for column in timed & set(range(len(row))):
            row[column] = "<seconds>"
    return found


def _names_seconds(row: list[str]) -> bool:
    return any("second" in cell.lower() for cell in row)


def _shortened(text: str) -> str:
    text = _NO_SECONDS.sub("<time>", text)
    return text if len(text) <= _LONGEST_CELL else "<text>"


_NO_SECONDS = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|seconds)\b")
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d[:-]\d\d[:-]\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<!\d)20[2-9]\d[01]\d[0-3]\d{7}(?!\d)"
)


# ---------------------------------------------------------------- normalising


def normalised(value: Any, folder: Path, without: frozenset[str] = frozenset()) -> Any:
    """`value` without what changes from run to run."""
    if isinstance(value, Mapping):
        return {
            key: _placeholder(key, each, folder, without)
            for key, each in value.items()
            if key not in without and key != _CHAIN
        }
    if isinstance(value, list | tuple):
        return [normalised(each, folder, without) for each in value]
    if isinstance(value, str):
        return _TIMESTAMP.sub("<time>", value.replace(str(folder), "<tmp>"))
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return value


def _is_volatile(key: str) -> bool:
    return key in VOLATILE or key.startswith("seconds_") or key.endswith("_seconds")


def _placeholder(key: str, value: Any, folder: Path, without: frozenset[str]) -> Any:
    if _is_volatile(key):
        return None if value is None else f"<{key}>"
    if key in PROSE and isinstance(value, str) and value.count(" ") > 1:
        return "<prose>"
    if key in PROSE and isinstance(value, list):
        return ["<prose>" if isinstance(one, str) else one for one in value]
    return normalised(value, folder, without)


# ---------------------------------------------------------------- comparing


def differences(
    expected: Any, actual: Any, where: str = "", tolerance: Tolerance = EXACT
) -> Iterator[str]:
    """One line per place where both differ by more than the tolerance."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key not in actual:
                yield f"{where}/{key}: is gone (was {_short(expected[key])})"
            elif not (key == "line" and where.startswith("/steps/")):
                yield from differences(expected[key], actual[key], f"{where}/{key}", tolerance)
        for key in actual:
            if key not in expected:
                yield f"{where}/{key}: is new ({_short(actual[key])})"
    elif where.endswith("/options") and isinstance(expected, list):
        # A command may gain options; it must not lose any.
        for option in expected:
            if option not in actual:
                yield f"{where}: {option} is gone"
    elif where.endswith((".html", ".md")) and isinstance(expected, list):
        yield from _lost_rows(expected, actual, where, tolerance)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{where}: {len(actual)} entries in place of {len(expected)}"
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            yield from differences(*pair, f"{where}/{index}", tolerance)
    elif where.endswith("/guards/policy"):
        # The hash of a policy file, which holds the version that wrote it.
        return
    elif where.rpartition("/")[2] in HASHES_OF_NUMBERS and _is_hash(expected) and _is_hash(actual):
        return
    elif not _same(expected, actual, tolerance):
        yield f"{where}: {_short(actual)} in place of {_short(expected)}"


# Versions of knowgate, and identities that hold the rules of a tokenizer as a version of its
# library writes them.
_CHECKOUT = re.compile(
    r"knowgate \d+\.\d+\.\d+|HuggingFaceChatModel-[0-9a-f]{16}|huggingface:[0-9a-f]{64}"
)
_PRINTED = re.compile(r"\d+(?:\.\d+)?")


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _lost_rows(expected: list[Any], actual: Any, where: str, tolerance: Tolerance) -> Iterator[str]:
    """Table rows whose numbers a page no longer shows; order and wording may change."""
    shown = Counter(_numbers(row) for row in actual)
    for row in expected:
        numbers = _numbers(row)
        if not numbers or shown[numbers]:
            continue
        if not any(_all_near(numbers, other, tolerance) for other in shown):
            yield f"{where}: no row shows the numbers of {_short(row)}"


def _numbers(row: Any) -> tuple[str, ...]:
    """The numbers of a table row, in order; empty for a heading."""
    if isinstance(row, str):
        return ()
    return tuple(_PRINTED.findall(_masked(" ".join(map(str, row)))))


def _all_near(expected: Sequence[str], actual: Sequence[str], tolerance: Tolerance) -> bool:
    """Whether printed numbers are the same but for the last place of those with a fraction."""
    return len(expected) == len(actual) and all(
        one == other or (tolerance.printed and _nearly_printed(one, other, tolerance))
        for one, other in zip(expected, actual, strict=True)
    )


def _nearly_printed(expected: str, actual: str, tolerance: Tolerance) -> bool:
    places = len(expected.partition(".")[2])
    if not places or places != len(actual.partition(".")[2]):
        return False
    one, other = float(expected), float(actual)
    return tolerance.near(one, other) or abs(one - other) < 1.5 * 10**-places


def _same(expected: Any, actual: Any, tolerance: Tolerance) -> bool:
    if type(expected) is bool or type(actual) is bool:
        return expected is actual
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        if expected != expected:  # NaN
            return actual != actual
        return expected == actual or tolerance.near(expected, actual)
    if isinstance(expected, str) and isinstance(actual, str):
        one, other = _masked(expected), _masked(actual)
        return one == other or (
            _PRINTED.sub("#", one) == _PRINTED.sub("#", other)
            and _all_near(_PRINTED.findall(one), _PRINTED.findall(other), tolerance)
        )
    return type(expected) is type(actual) and bool(expected == actual)


def _masked(text: str) -> str:
    """The text without versions and without identities that name a folder of the checkout."""
    return _CHECKOUT.sub("<checkout>", text)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "…"


def renamed(expected: dict[str, Any], scenario: str, table: Sequence[Rename]) -> dict[str, Any]:
    """What is expected after all renames that concern the scenario."""
    files: dict[str, Any] = {}
    rules = [rule for rule in table if rule.concerns(scenario)]
    for name, content in expected["files"].items():
        target: str | None = name
        for rule in rules:
            if rule.kind == "file" and target is not None:
                target = rule.file(target)
        if target is not None:
            files[target] = content
    steps = [_renamed(step, rules, ("steps",)) for step in expected["steps"]]
    return {
        "steps": steps,
        "files": {name: _renamed(each, rules, (name,)) for name, each in files.items()},
    }


def _renamed(value: Any, rules: Sequence[Rename], path: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_renamed(each, rules, path) for each in value]
    if not isinstance(value, dict):
        for rule in rules:
            if rule.kind == "value" and rule.old == value and rule.at(path):
                value = rule.new
            elif rule.kind == "text" and isinstance(value, str) and rule.at(path):
                value = value.replace(rule.old, rule.new)
        return value
    found = {}
    for key, each in value.items():
        target: str | None = key
        for rule in rules:
            if rule.kind == "key" and target == rule.old and rule.at((*path, key)):
                target = rule.new
        if target is not None:
            found[target] = _renamed(each, rules, (*path, target))
    return found


# ---------------------------------------------------------------- storing


def stored(name: str) -> dict[str, Any]:
    """What is expected of a scenario."""
    text = (EXPECTED / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def write(scenario: Scenario) -> Path:
    """Run a scenario and store what it leaves."""
    EXPECTED.mkdir(exist_ok=True)
    path = EXPECTED / f"{scenario.name}.json"
    path.write_text(_pretty(take(scenario)) + "\n", encoding="utf-8")
    return path


def check(scenario: Scenario) -> list[str]:
    """Run a scenario; where it differs from what is stored."""
    wanted = renamed(stored(scenario.name), scenario.name, RENAMED)
    found = differences(wanted, take(scenario), tolerance=scenario.tolerance)
    return [line for line in found if not _is_added(scenario.name, line)]


def _is_added(scenario: str, line: str) -> bool:
    place, _, what = line.partition(": ")
    return what.startswith("is new") and any(
        fnmatch(f"{scenario}{place}", pattern) for pattern in ADDED
    )


def _pretty(value: Any, depth: int = 0) -> str:
    """JSON with a line for each value that fits one."""
    flat = json.dumps(value, ensure_ascii=False)
    if (
        not isinstance(value, dict | list)
        or not value
        or (depth > 1 and len(flat) <= (150 if depth == 2 else 500))
    ):
        return flat
    inner, margin = " " * min(depth + 1, 4), " " * min(depth, 4)
    if isinstance(value, dict):
        rows = [f"{json.dumps(k)}: {_pretty(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{margin}}}"
    rows = [_pretty(each, depth + 1) for each in value]
    return "[\n" + ",\n".join(inner + row for row in rows) + f"\n{margin}]"


def main(arguments: Sequence[str]) -> int:
    """`write` or `check`, all scenarios or those that are named."""
    from tests.golden.scenarios import SCENARIOS

    names = {scenario.name: scenario for scenario in SCENARIOS}
    what, chosen = arguments[0] if arguments else "", list(arguments[1:]) or list(names)
    strangers = [name for name in chosen if name not in names]
    if what not in ("write", "check") or strangers:
        print(__doc__, *(f"no scenario {name!r}" for name in strangers), sep="\n")
        return 2
    failed = 0
    for name in chosen:
        begun = time.perf_counter()
        if what == "write":
            size = write(names[name]).stat().st_size
            words = f"written, {size / 1000:.0f} kB"
            found: list[str] = []
        else:
            found = check(names[name])
            words = f"{len(found)} differences" if found else "as expected"
        print(f"{name}: {words} ({time.perf_counter() - begun:.1f} s)", flush=True)
        for line in found[:MOST_SHOWN]:
            print(f"  {line}")
        if len(found) > MOST_SHOWN:
            print(f"  … and {len(found) - MOST_SHOWN} more")
        failed += bool(found)
    return int(failed > 0)


if __name__ == "__main__":
    # The scenarios import this module by its full name: one of the two must do the work.
    from tests.golden.golden import main as run

    sys.exit(run(sys.argv[1:]))
