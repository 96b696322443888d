"""An index of runs in a temporary SQLite file: filters, full text search, pages, comparison."""

# ruff: noqa: S608 - SQL is made of fixed texts; what people type goes in as values
from __future__ import annotations

import gc
import json
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.text import clean_text
from ..run.manifest import Manifest
from ._query import CaseQuery, ComparisonQuery
from ._records import Record, RunRecords, read_records

PAGE = 100
_FACETS = ("system", "kind", "route", "reason")
_MOST_DEPTH = 4

_TEXTS = ("question", "expected", "reply", "error")
_DETAILS = ("passages", "context", "signals", "verdicts", "fields")
_COLUMNS = ("id", "run", "key", "pair", *_FACETS, "score", "labels", *_TEXTS, "detail")

_SCHEMA = """
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, run TEXT, key TEXT, pair TEXT, system TEXT, kind TEXT, route TEXT,
    reason TEXT, score REAL, labels TEXT, question TEXT, expected TEXT, reply TEXT, error TEXT,
    detail TEXT
);
CREATE TABLE labels (label TEXT, row INTEGER);
CREATE TABLE passages (id INTEGER PRIMARY KEY, run TEXT, name TEXT, text TEXT, source TEXT);
CREATE TABLE shown (passage INTEGER, row INTEGER);
CREATE VIRTUAL TABLE words USING fts5(question, expected, reply, content='');
CREATE VIRTUAL TABLE passage_words USING fts5(text, content='');
"""
_INDICES = """
CREATE UNIQUE INDEX by_key ON rows (run, key);
CREATE INDEX by_pair ON rows (pair, run, system);
CREATE INDEX by_score ON rows (run, score);
CREATE INDEX by_label ON labels (label, row);
CREATE INDEX by_name ON passages (run, name);
CREATE INDEX by_passage ON shown (passage, row);
ANALYZE;
"""


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run in the index.

    Attributes:
        name: unique; names the run in addresses.
        folder: where it lies.
        suite: that made it.
        rows: how many there are.
        planned: rows of the finished run, None where not known.
        facets: system, kind, route, reason, label → value → number of rows.
        scores: the lowest and the highest score, None where no row has one.
    """

    name: str
    folder: Path
    suite: str
    rows: int
    planned: int | None
    facets: Mapping[str, Mapping[str, int]]
    scores: tuple[float, float] | None


Case = Mapping[str, Any]
"""One row with everything that is known of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """One page of rows, and how many there are on all pages."""

    rows: Sequence[sqlite3.Row]
    total: int


@dataclass(frozen=True, slots=True)
class RunIndex:
    """Answers the viewer's questions about runs; one may be asked from many threads.

    Attributes:
        runs: by name, in the order of the command.
        skipped: what could not be read below a folder of runs, one line each.
    """

    path: Path
    runs: Mapping[str, IndexedRun]
    skipped: Sequence[str] = field(default=())

    def find(self, query: CaseQuery) -> Found:
        """Return a page of the rows that a query selects, and how many it selects."""
        where, values = query.condition()
        with self._open() as base:
            total = base.execute(f"SELECT count(*) FROM rows WHERE {where}", values).fetchone()[0]
            rows = base.execute(
                f"SELECT * FROM rows WHERE {where} ORDER BY {query.order()} LIMIT ? OFFSET ?",
                [*values, PAGE, (query.page - 1) * PAGE],
            ).fetchall()
        return Found(rows, total)

    def case(self, run: str, key: str) -> Case | None:
        """Return everything that is known of a row by its key; None where there is none.

        Of its passages these are name, text (None where the run does not hold it), source and
        score.
        """
        with self._open() as base:
            row = base.execute("SELECT * FROM rows WHERE run = ? AND key = ?", (run, key))
            found = row.fetchone()
            if found is None:
                return None
            case = {**found, **json.loads(found["detail"])}
            marks = ", ".join("?" * len(case["passages"]))
            texts = base.execute(
                f"SELECT name, text, source FROM passages WHERE run = ? AND name IN ({marks})",
                [run, *(name for name, _ in case["passages"])],
            )
            known = {one["name"]: dict(one) for one in texts}
        case["passages"] = [
            {"name": name, "text": None, "source": "", **known.get(name, {}), "score": score}
            for name, score in case["passages"]
        ]
        return case

    def neighbours(self, query: CaseQuery, case: Case) -> tuple[str | None, str | None]:
        """Return the keys of the rows before and after a case in the order of a query."""
        where, values = query.condition()
        keys: list[str | None] = []
        with self._open() as base:
            for later in (False, True):
                side, side_values, order = query.beyond(case["id"], case["score"], later=later)
                row = base.execute(
                    f"SELECT key FROM rows WHERE {where} AND {side} ORDER BY {order} LIMIT 1",
                    [*values, *side_values],
                ).fetchone()
                keys.append(None if row is None else row["key"])
        return keys[0], keys[1]

    def with_only_systems(self, query: ComparisonQuery) -> ComparisonQuery:
        """Return the query with the systems that its runs have: the only one is chosen."""
        chosen = []
        for run, system in ((query.run, query.system), (query.other_run, query.other_system)):
            systems = list(self.runs[run].facets["system"])
            own = system if system in systems else ""
            chosen.append(systems[0] if len(systems) == 1 else own)
        return replace(query, system=chosen[0], other_system=chosen[1])

    def compare(self, query: ComparisonQuery) -> tuple[Found, Mapping[str, int]]:
        """Return a page of pairs, and how many there are of each kind of change."""
        joined, values = query.joined()
        counts = ", ".join(f"sum({sql}) AS '{name}'" for name, sql in query.CHANGES.items())
        chosen = query.condition()
        with self._open() as base:
            totals = dict(base.execute(f"SELECT {counts} {joined}", values).fetchone())
            rows = base.execute(
                f"SELECT {query.columns()} {joined} AND {chosen} ORDER BY a.id LIMIT ? OFFSET ?",
                [*values, PAGE, (query.page - 1) * PAGE],
            ).fetchall()
        numbers = {name: int(count or 0) for name, count in totals.items()}
        return Found(rows, numbers[query.change]), numbers

    def others(self, case: Case) -> Sequence[sqlite3.Row]:
        """Return the rows of the same case by other systems, in this run and in others."""
        with self._open() as base:
            return base.execute(
                "SELECT * FROM rows WHERE pair = ? AND id != ? AND question = ? LIMIT 50",
                (case["pair"], case["id"], case["question"]),
            ).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as base:
            base.row_factory = sqlite3.Row
            yield base


@contextmanager
def open_index(
    folders: Sequence[Path], policies: Mapping[str, Policy] | None = None
) -> Iterator[RunIndex]:
    """Index runs into a temporary file that is removed at the end.

    Args:
        folders: runs, or folders with runs below them.
        policies: by the sha256 of their files, for thresholds.

    Raises:
        InputError: a folder is no run and holds none, or a run that was named is broken.
    """
    with tempfile.TemporaryDirectory(prefix="knowgate-view-") as made:
        path = Path(made) / "index.sqlite"
        runs: dict[str, IndexedRun] = {}
        skipped: list[str] = []
        with closing(sqlite3.connect(path)) as base:
            # Without any journal, a broken run could not be taken back.
            base.executescript("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;" + _SCHEMA)
            for name, folder, named in _run_folders(folders, skipped):
                try:
                    read = read_records(folder, policies or {})
                    runs[name] = _add(base, name, read)
                except Exception as error:  # noqa: BLE001 - files may be damaged in any way
                    base.rollback()
                    told = _told(error, folder)
                    if named:
                        raise told from None
                    skipped.append(str(told))
            base.executescript(_INDICES)
            base.commit()
        if not runs:
            raise InputError(
                skipped[0] if skipped else "there is no run in this folder",
                where="" if skipped else os.fspath(folders[0]),
                hint="name a folder made with `knowgate measure`, `eval` or `import`",
            )
        yield RunIndex(path, runs, tuple(skipped))


def _told(error: Exception, folder: Path) -> InputError:
    """The error for a run that cannot be read."""
    if isinstance(error, InputError):
        return error
    what = f"its files are damaged ({type(error).__name__})"
    if isinstance(error, UnicodeEncodeError):
        what = "an id in it is no text"
    if isinstance(error, OSError):
        what = f"cannot be read ({error.strerror})"
    return InputError(what, where=os.fspath(folder))


def _run_folders(folders: Sequence[Path], skipped: list[str]) -> Iterator[tuple[str, Path, bool]]:
    """Name, folder and whether it was named itself, of all runs."""
    names: set[str] = set()
    for folder in folders:
        if (folder / "manifest.json").is_file():
            below = [folder]
        else:
            below = list(_below(folder, skipped)) if folder.is_dir() else [folder]
        if not below:
            raise InputError(
                "there is no run in this folder or below it",
                where=os.fspath(folder),
                hint="name a folder made with `knowgate measure`, `eval` or `import`",
            )
        for one in below:
            name = one.resolve().name if one == folder else one.relative_to(folder).as_posix()
            given, number = name, 2
            while name in names:
                name, number = f"{given} ({number})", number + 1
            names.add(name)
            yield name, one, one == folder


def _below(folder: Path, skipped: list[str]) -> Iterator[Path]:
    def tell(error: OSError) -> None:
        skipped.append(str(_told(error, Path(error.filename))))

    for place, inside, files in os.walk(folder, onerror=tell):
        inside.sort()
        depth = len(Path(place).relative_to(folder).parts)
        if depth and "manifest.json" in files and _has_suite(Path(place)):
            yield Path(place)
        if depth >= _MOST_DEPTH:
            inside.clear()


def _has_suite(folder: Path) -> bool:
    # Knowledge bases have a manifest, too.
    try:
        return "suite" in Manifest.read_raw(folder)
    except InputError:
        return True  # told when it is read


def _add(base: sqlite3.Connection, name: str, read: RunRecords) -> IndexedRun:
    collecting = gc.isenabled()
    # Hundreds of thousands of live objects would be looked through again and again.
    gc.disable()
    try:
        numbers = _add_passages(base, name, read.passages)
        count, facets, scores = _add_rows(base, name, read.records, numbers)
    finally:
        if collecting:
            gc.enable()
    base.commit()
    return IndexedRun(name, read.folder, read.suite, count, read.planned, facets, scores)


def _add_passages(
    base: sqlite3.Connection, run: str, passages: Mapping[str, tuple[str, str]]
) -> dict[str, int]:
    start = base.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
    numbers = {name: start + place for place, name in enumerate(passages, start=1)}
    base.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?)",
        (
            (numbers[name], run, name, clean_text(text), clean_text(source))
            for name, (text, source) in passages.items()
        ),
    )
    base.executemany(
        "INSERT INTO passage_words (rowid, text) VALUES (?, ?)",
        ((numbers[name], clean_text(text)) for name, (text, _) in passages.items()),
    )
    return numbers


def _add_rows(
    base: sqlite3.Connection, run: str, records: Iterable[Record], numbers: Mapping[str, int]
) -> tuple[int, dict[str, dict[str, int]], tuple[float, float] | None]:
    start = base.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()[0]
    facets: dict[str, Counter[str]] = {name: Counter() for name in (*_FACETS, "label")}
    rows: list[dict[str, Any]] = []
    labels: list[tuple[str, int]] = []
    shown: list[tuple[int, int]] = []
    scores: list[float] = []
    identifier = start
    for identifier, record in enumerate(records, start=start + 1):
        own = [one["label"] for one in record.verdicts] + (["error"] if record.error else [])
        for name in _FACETS:
            facets[name][getattr(record, name)] += 1
        facets["label"].update(dict.fromkeys(own, 1))
        labels += [(label, identifier) for label in dict.fromkeys(own)]
        shown += [(numbers[p], identifier) for p, _ in record.passages if p in numbers]
        scores += [] if record.score is None else [record.score]
        # Halves of characters SQLite cannot take.
        texts = {name: clean_text(getattr(record, name)) for name in _TEXTS}
        detail = json.dumps({name: getattr(record, name) for name in _DETAILS})
        known = {"id": identifier, "run": run, "labels": "\n".join(sorted(own)), "detail": detail}
        rows.append({**vars(record), **texts, **known})
    places = ", ".join(f":{name}" for name in _COLUMNS)
    base.executemany(f"INSERT INTO rows VALUES ({places})", rows)
    base.executemany(
        "INSERT INTO words (rowid, question, expected, reply) "
        "VALUES (:id, :question, :expected, :reply)",
        rows,
    )
    base.executemany("INSERT INTO labels VALUES (?, ?)", labels)
    base.executemany("INSERT INTO shown VALUES (?, ?)", shown)
    # A facet that no row has is not offered.
    offered = {
        name: {} if values.keys() <= {""} else dict(sorted(values.items()))
        for name, values in facets.items()
    }
    ends = (min(scores), max(scores)) if scores else None
    return identifier - start, offered, ends
