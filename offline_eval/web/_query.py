"""What the viewer is asked for: read from an address, written into links, applied to records."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from ._records import Record

_TERM = re.compile(r'"([^"]+)"|(\S+)')
_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Texts without spaces have no words to be looked for.
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af]")
FACETS = ("system", "kind", "route", "reason")
_MOST_TERMS = 20
_LONGEST = 1000


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
        values: dict[str, Any] = {**texts, "page": number}
        return cls(**values).understood()

    def understood(self) -> Self:
        """Return the query without what it cannot mean."""
        return self

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

    def understood(self) -> Self:
        """Return the query without limits that are no numbers, and orders that are none."""
        unknown = [name for name in ("low", "high") if _number(getattr(self, name)) is None]
        unknown += [] if self.sort in ("", "score", "-score") else ["sort"]
        cleared: dict[str, Any] = dict.fromkeys(unknown, "")
        return replace(self, **cleared)

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
    def terms(self) -> list[Callable[[str], bool]]:
        """Tests of a text, one for each word and phrase that is searched."""
        found = [phrase or word for phrase, word in _TERM.findall(self.text)]
        return [_term(one) for one in found[:_MOST_TERMS]]


@dataclass(frozen=True, slots=True)
class ComparisonQuery(_Query):
    """Two runs, or two systems of one run, side by side.

    Attributes:
        run: of the first side.
        system: likewise; empty for all, which are then told apart.
        change: which pairs are shown, a name of `CHANGES`.
    """

    CHANGES: ClassVar[Mapping[str, Callable[[Record, Record], bool]]] = MappingProxyType(
        {
            # A system without a guard has no route, and is taken to answer.
            "flipped": lambda a, b: (
                (a.route == "abstain") != (b.route == "abstain")
                or ("" not in (a.route, b.route) and a.route != b.route)
            ),
            "label": lambda a, b: a.labels != b.labels,
            "reply": lambda a, b: a.reply != b.reply,
            "all": lambda _a, _b: True,
        }
    )

    run: str
    other_run: str
    system: str = ""
    other_system: str = ""
    change: str = "flipped"

    def understood(self) -> Self:
        """Return the query with a change that there is."""
        return self if self.change in self.CHANGES else replace(self, change="flipped")


def _term(term: str) -> Callable[[str], bool]:
    """Return what finds a phrase of whole words, of which the last one may go on, in a text."""
    words = _folded(term)
    if not words.strip() or _NO_SPACES.search(term):
        plain = term.casefold()
        return lambda text: plain in text.casefold()
    return lambda text: words in _folded(text)


@cache
def _folded(text: str) -> str:
    """Return the words of a text without case and accents, each behind a space."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(("", *_WORD.findall(bare.casefold())))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
