"""What one clause does in a reply."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ._patterns import Language, Strength
from ._reading import Clause

_UNITS = re.compile(r"[㐀-鿿豈-﫿]|[^\W_㐀-鿿豈-﫿]+")
_CJK = re.compile(r"[㐀-鿿豈-﫿]")
# A clause of two words, "See below", tells nothing.
_LEAST_UNITS = 3


@functools.cache
def languages() -> tuple[Language, ...]:
    """English and Chinese; compiling their patterns takes a quarter of a second, once."""
    from ._chinese import CHINESE
    from ._english import ENGLISH

    return ENGLISH, CHINESE


class Role(StrEnum):
    """What a clause is for."""

    REFUSAL = "refusal"
    SUBSTANCE = "substance"
    REDIRECT = "redirect"
    SOURCE = "source"
    COURTESY = "courtesy"


@dataclass(frozen=True, slots=True)
class JudgedClause:
    """A clause with what it does.

    Attributes:
        clause: as it was read.
        role: what it is for.
        strength: how strongly it refuses.
        units: its words, and single Chinese characters.
    """

    clause: Clause
    role: Role
    strength: Strength
    units: int


def judge_clauses(clauses: Iterable[Clause]) -> list[JudgedClause]:
    """Each clause with its role."""
    return [_judged(clause) for clause in clauses]


def patterns_sha256() -> str:
    """Hexadecimal sha256 of all languages' patterns."""
    found = hashlib.sha256()
    for language in languages():
        others = (
            language.conditions, language.whole, language.courtesy, language.redirect,
            language.source_talk, language.yes_or_no,
        )  # fmt: skip
        for strength, pattern in (*language.refusals, *((0, other) for other in others)):
            found.update(f"{int(strength)} {pattern.pattern}\n".encode())
    return found.hexdigest()


def units(text: str) -> list[str]:
    """Words, and single Chinese characters."""
    return _UNITS.findall(text)


def is_whole_abstention(clauses: Iterable[Clause]) -> bool:
    """Whether the reply is one short phrase for "no answer", such as "unknown"."""
    text = " ".join(clause.text for clause in clauses)
    return len(text) < 60 and any(language.whole.fullmatch(text) for language in languages())


def opens_with_yes_or_no(clause: Clause) -> bool:
    """Whether the clause begins as the answer to a yes/no question does."""
    return any(language.yes_or_no.match(clause.text) for language in languages())


def _judged(clause: Clause) -> JudgedClause:
    count = len(units(clause.text))
    # The first is English.
    tried = languages() if _CJK.search(clause.text) else languages()[:1]
    strength = max(_strength(clause.text, language) for language in tried)
    if strength is not Strength.NONE:
        role = Role.REFUSAL
    elif any(language.courtesy.fullmatch(clause.text) for language in tried):
        role = Role.COURTESY
    elif any(language.redirect.search(clause.text) for language in tried):
        role = Role.REDIRECT
    elif count < _LEAST_UNITS and not any(map(str.isdigit, clause.text)):
        role = Role.COURTESY
    elif any(language.source_talk.match(clause.text) for language in tried):
        role = Role.SOURCE
    else:
        role = Role.SUBSTANCE
    return JudgedClause(clause, role, strength, count)


def _strength(text: str, language: Language) -> Strength:
    for strength, pattern in language.refusals:
        found = pattern.search(text)
        if found is not None and not language.conditions.search(text[: found.start()]):
            return strength
    return Strength.NONE
