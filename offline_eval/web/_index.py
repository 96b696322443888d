"""Runs in memory for the viewer, and what it is asked for: filters, search, pages."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ...guard.errors import InputError
from ...guard.policy import Policy
from ..run.manifest import Manifest
from ._records import Record, RunRecords, read_records

_TERM = re.compile(r'"([^"]+)"|(\S+)')
FACETS = ("system", "kind", "route", "reason")
_MOST_TERMS = 20
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """Filters, order and page of the list of cases, as an address has them in its parameters.

    Attributes:
        run: name of the run.
        low: lowest score, inclusive; as typed, empty for none.
        high: highest score, inclusive.
        text: words and "phrases" that question, expected answer, reply or passages hold.
        sort: empty for the order of the run, `score` or `-score`.
    """

    run: str
    system: str = ""
    kind: str = ""
    route: str = ""
    reason: str = ""
    label: str = ""
    low: str = ""
    high: str = ""
    text: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, given: Mapping[str, str]) -> CaseQuery:
        """Read the parameters of an address; what is not understood is left out."""
        names = [one.name for one in fields(cls) if one.name != "page"]
        texts = {name: given.get(name, "")[:_LONGEST].replace("\x00", "") for name in names}
        texts |= {name: "" for name in ("low", "high") if _number(texts[name]) is None}
        sort = texts.pop("sort")
        page = given.get("page", "")
        return cls(
            **texts,
            sort=sort if sort in ("score", "-score") else "",
            page=max(1, int(page)) if re.fullmatch(r"[0-9]{1,9}", page) else 1,
        )

    def link(self, **changes: Any) -> str:
        """Return the query string of this query with changes, from its first page."""
        values = asdict(replace(self, **{"page": 1, **changes}))
        return urlencode({name: value for name, value in values.items() if value not in ("", 1)})

    @property
    def filters(self) -> int:
        """How many filters are set."""
        return sum(bool(getattr(self, one)) for one in (*FACETS, "label", "low", "high", "text"))

    def selects(self, record: Record) -> bool:
        """Return whether a record has all that is asked for, its text aside."""
        if any((own := getattr(self, name)) and getattr(record, name) != own for name in FACETS):
            return False
        if self.label and self.label not in record.labels:
            return False
        low, high, score = _number(self.low), _number(self.high), record.score
        if score is None:
            return low is None and high is None
        return (low is None or low <= score) and (high is None or score <= high)

    @property
    def terms(self) -> list[str]:
        """The words and phrases that are searched, in small letters."""
        found = [phrase or word for phrase, word in _TERM.findall(self.text.casefold())]
        return found[:_MOST_TERMS]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


PAGE = 100
_MOST_DEPTH, _MOST_OTHERS = 4, 50
_HINT = "name a folder made with `knowgate measure`, `eval` or `import`"


class IndexedRun:
    """A run as the viewer shows it.

    Args:
        name: unique; names the run in addresses.
        read: what its folder holds.

    Attributes:
        rows: how many there are.
        facets: system, kind, route, reason, label → value → number of rows; one that no row has
            is empty.
        scores: the lowest and the highest score, None where no row has one.
    """

    def __init__(self, name: str, read: RunRecords) -> None:
        self.name = name
        self.suite, self.planned, self.passages, self.records = read
        self.by_key, self.rows = {one.key: one for one in self.records}, len(self.records)
        found = {one: Counter(getattr(record, one) for record in self.records) for one in FACETS}
        found["label"] = Counter(label for record in self.records for label in record.labels)
        self.facets: dict[str, dict[str, int]] = {
            facet: {} if values.keys() <= {""} else dict(sorted(values.items()))
            for facet, values in found.items()
        }
        scores = [record.score for record in self.records if record.score is not None]
        self.scores = (min(scores), max(scores)) if scores else None
        for record in self.records:
            record.run = name

    def texts_of(self, record: Record) -> list[dict[str, Any]]:
        """Return name, text (None where the run does not hold it), source and score of passages."""
        found = []
        for name, score in record.passages:
            text, source = self.passages.get(name, (None, ""))
            found.append({"name": name, "text": text, "source": source, "score": score})
        return found

    def select(self, query: CaseQuery) -> list[Record]:
        """Return the records that a query selects, in its order."""
        found = [record for record in self.records if query.selects(record)]
        for term in query.terms:
            names = {name for name, (text, _) in self.passages.items() if term in text.casefold()}
            found = [
                one
                for one in found
                if term in f"{one.question}\n{one.expected}\n{one.reply}".casefold()
                or any(name in names for name, _ in one.passages)
            ]
        if query.sort:
            found.sort(
                key=lambda one: float("-inf") if one.score is None else one.score,
                reverse=query.sort == "-score",
            )
        return found

    def neighbours(self, query: CaseQuery, record: Record) -> tuple[str | None, str | None]:
        """Return the keys of the rows before and after one in the order of a query."""
        keys = [None, *(one.key for one in self.select(query)), None]
        if record.key not in keys:
            return None, None
        at = keys.index(record.key)
        return keys[at - 1], keys[at + 1]


# By name, in the order of the command.
Runs = Mapping[str, IndexedRun]


def others(runs: Runs, record: Record) -> list[Record]:
    """Return the rows of the same case by other systems, in this run and in others."""
    same = record.pair, record.question
    every = (one for run in runs.values() for one in run.records)
    found = [one for one in every if (one.pair, one.question) == same and one is not record]
    return found[:_MOST_OTHERS]


def index_runs(
    folders: Sequence[Path], policies: Mapping[str, Policy] | None = None
) -> tuple[Runs, Sequence[str]]:
    """Read runs for the viewer.

    Args:
        folders: runs, or folders with runs below them.
        policies: by the sha256 of their files, for thresholds.

    Returns:
        The runs, and what could not be read below a folder of runs, one line each.

    Raises:
        InputError: a folder is no run and holds none, or a run that was named is broken.
    """
    runs: dict[str, IndexedRun] = {}
    skipped: list[str] = []
    for folder in folders:
        holds_runs = folder.is_dir() and not (folder / "manifest.json").is_file()
        below = list(_below(folder, skipped)) if holds_runs else [folder]
        if not below:
            what = "there is no run in this folder or below it"
            raise InputError(what, where=os.fspath(folder), hint=_HINT)
        for one in below:
            given = one.resolve().name if one == folder else one.relative_to(folder).as_posix()
            names = chain([given], (f"{given} ({number})" for number in count(2)))
            name = next(free for free in names if free not in runs)
            try:
                runs[name] = IndexedRun(name, read_records(one, policies or {}))
            except Exception as error:  # noqa: BLE001 - files may be damaged in any way
                told = _told(error, one)
                if one == folder:
                    raise told from None
                skipped.append(str(told))
    if not runs:
        raise InputError(skipped[0], hint=_HINT)
    return runs, skipped


def _told(error: Exception, folder: Path) -> InputError:
    """The error for a run that cannot be read."""
    if isinstance(error, InputError):
        return error
    what = f"its files are damaged ({type(error).__name__})"
    if isinstance(error, OSError):
        what = f"cannot be read ({error.strerror})"
    return InputError(what, where=os.fspath(folder))


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
