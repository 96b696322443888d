"""What the viewer is asked for: read from an address, written into links, and turned into SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

_TERM = re.compile(r'"([^"]+)"|(\S+)')
# The tokenizer of the full text index takes text without spaces for one word.
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af]")
_FIELDS = ("system", "kind", "route", "reason")
_MOST_TERMS = 20
_LONGEST = 1000
_SORTS = MappingProxyType(
    {
        "": ("id", "id DESC"),
        "score": ("score, id", "score DESC, id DESC"),
        "-score": ("score DESC, id", "score, id DESC"),
    }
)


@dataclass(frozen=True, slots=True)
class _Query:
    """What is asked for by an address, as its parameters."""

    page: int = field(default=1, kw_only=True)

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """Read the parameters of an address; what is not understood is left out."""
        names = [one.name for one in fields(cls) if one.name != "page"]
        texts = {name: given.get(name, "")[:_LONGEST].replace("\x00", "") for name in names}
        page = given.get("page", "")
        number = max(1, int(page)) if re.fullmatch(r"[0-9]{1,9}", page) else 1
        return cls(**{**cls._understood(texts), "page": number})

    @classmethod
    def _understood(cls, texts: dict[str, str]) -> dict[str, Any]:
        return texts

    def link(self, **changes: Any) -> str:
        """Return the query string of this query with changes, from its first page."""
        values = asdict(replace(self, **{"page": 1, **changes}))
        last = {"page": values.pop("page")}
        return urlencode({k: v for k, v in {**values, **last}.items() if v not in ("", 1)})


@dataclass(frozen=True, slots=True)
class CaseQuery(_Query):
    """Filters, order and page of the list of cases.

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

    @classmethod
    def _understood(cls, texts: dict[str, str]) -> dict[str, Any]:
        sort = texts["sort"] if texts["sort"] in _SORTS else ""
        limits = {name: texts[name] for name in ("low", "high") if _number(texts[name]) is not None}
        return {**texts, "low": "", "high": "", **limits, "sort": sort}

    @property
    def filters(self) -> int:
        """How many filters are set."""
        names = (*_FIELDS, "label", "low", "high", "text")
        return sum(bool(getattr(self, name)) for name in names)

    def condition(self) -> tuple[str, list[Any]]:
        """Return a condition on `rows`, and its values."""
        parts = ["run = ?"]
        values: list[Any] = [self.run]
        for name in _FIELDS:
            if chosen := getattr(self, name):
                parts.append(f"{name} = ?")
                values.append(chosen)
        if self.label:
            parts.append("id IN (SELECT row FROM labels WHERE label = ?)")
            values.append(self.label)
        for name, sign in (("low", ">="), ("high", "<=")):
            if (limit := _number(getattr(self, name))) is not None:
                parts.append(f"score {sign} ?")
                values.append(limit)
        for sql, searched in _search(self.text):
            parts.append(sql)
            values += searched
        return " AND ".join(parts), values

    def order(self) -> str:
        """Return the order of the rows."""
        return _SORTS[self.sort][0]

    def beyond(
        self, identifier: int, score: float | None, *, later: bool
    ) -> tuple[str, list[Any], str]:
        """Return a condition for the rows after (or before) one, its values, and their order."""
        order = _SORTS[self.sort][0 if later else 1]
        if not self.sort:
            return f"id {'>' if later else '<'} ?", [identifier], order
        # SQLite sorts rows without a score before all others.
        upwards = (self.sort == "score") == later
        mine = "coalesce(score, -9e999)"
        sign, step = (">" if upwards else "<"), (">" if later else "<")
        own = -math.inf if score is None else score
        return f"({mine} {sign} ? OR ({mine} = ? AND id {step} ?))", [own, own, identifier], order


@dataclass(frozen=True, slots=True)
class ComparisonQuery(_Query):
    """Two runs, or two systems of one run, side by side.

    Attributes:
        run: of the first side.
        system: likewise; empty for all, which are then told apart.
        change: which pairs are shown, a name of `CHANGES`.
    """

    CHANGES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            # A system without a guard has no route, and is taken to answer.
            "flipped": "(a.route = 'abstain') != (b.route = 'abstain') "
            "OR (a.route != '' AND b.route != '' AND a.route != b.route)",
            "label": "a.labels != b.labels",
            "reply": "a.reply != b.reply",
            "all": "1",
        }
    )

    run: str
    other_run: str
    system: str = ""
    other_system: str = ""
    change: str = "flipped"

    @classmethod
    def _understood(cls, texts: dict[str, str]) -> dict[str, Any]:
        known = texts["change"] in cls.CHANGES
        return {**texts, "change": texts["change"] if known else "flipped"}

    def joined(self) -> tuple[str, list[Any]]:
        """Return the pairs as SQL, and its values."""
        parts, values = ["a.run = ?", "b.run = ?"], [self.run, self.other_run]
        for side, system in (("a", self.system), ("b", self.other_system)):
            if system:
                parts.append(f"{side}.system = ?")
                values.append(system)
        if not (self.system and self.other_system):
            # A run without systems has one, which has no name.
            parts.append("(a.system = b.system OR a.system = '' OR b.system = '')")
        # The question too: another run may have given the id to another one.
        pairs = "FROM rows a JOIN rows b ON a.pair = b.pair AND a.question = b.question"
        return f"{pairs} WHERE {' AND '.join(parts)}", values

    def condition(self) -> str:
        """Return which pairs are shown."""
        return f"({self.CHANGES[self.change]})"

    @staticmethod
    def columns() -> str:
        """Return the columns of a pair: those of the second side begin with `other_`."""
        names = ("key", "system", "route", "reason", "score", "labels", "reply", "error")
        sides = [f"a.{name} AS {name}, b.{name} AS other_{name}" for name in names]
        return ", ".join(("a.id AS id", "a.kind AS kind", "a.question AS question", *sides))


_HOLDS_WORDS = (
    "(id IN (SELECT rowid FROM words WHERE words MATCH ?) OR id IN (SELECT row FROM shown "
    "WHERE passage IN (SELECT rowid FROM passage_words WHERE passage_words MATCH ?)))"
)


def words_of(text: str) -> list[str]:
    """Return the words and phrases of a search text."""
    found = [phrase or word for phrase, word in _TERM.findall(text)]
    return found[:_MOST_TERMS]


def _search(text: str) -> list[tuple[str, list[Any]]]:
    conditions: list[tuple[str, list[Any]]] = []
    for term in words_of(text):
        words = re.findall(r"\w+", term)
        if not words or _NO_SPACES.search(term):
            like = "%" + re.sub(r"([\\%_])", r"\\\1", term) + "%"
            columns = [f"{name} LIKE ? ESCAPE '\\'" for name in ("question", "expected", "reply")]
            conditions.append((f"({' OR '.join(columns)})", [like] * 3))
            continue
        # A phrase of whole words; the last one may go on.
        asked = '"' + " ".join(words) + '"*'
        conditions.append((_HOLDS_WORDS, [asked, asked]))
    return conditions


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
