"""Split a reply into clauses with one spelling of quotes, negations and Chinese characters."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from .. import language as tables
from ..errors import NO_JSON
from ..files import text_sha256
from ..text import clean_text

_UNCITED = frozenset(tables.section("replies")["uncited"])


class Citation(StrEnum):
    """What a citation field says about its reply."""

    UNKNOWN = "unknown"
    NONE = "none"
    CITED = "cited"


def read_citation(value: object, depth: int = 0) -> Citation:
    """What `value`, a citation field of any shape, says.

    Nothing (None, "", [], {}, False), a negative number, NaN and words such as
    "no citation" say that the reply cites nothing; a number from 0, a text or a
    list that holds any of these say that it cites. Values of other kinds say nothing, nor do lists
    within more than `depth` 3 of others.

    Example:
        >>> read_citation(0).value, read_citation("No citation.").value, read_citation([-1]).value
        ('cited', 'none', 'none')
    """
    if isinstance(value, Citation):
        return value
    if value is None or value is False:
        return Citation.NONE
    if isinstance(value, bytes):
        value = bytes.decode(value, "utf-8", "replace")
    if isinstance(value, str):
        return _read_text(str.__str__(value))
    if isinstance(value, int | float):
        # NaN is not from 0 on either, and a whole number may be too large for a float.
        return Citation.CITED if value >= 0 else Citation.NONE
    if isinstance(value, list | tuple | set | frozenset | dict):
        return _read_several(value.values() if isinstance(value, dict) else value, depth)
    return Citation.UNKNOWN


def _read_text(text: str) -> Citation:
    # The longest phrase is shorter than this, so that a huge field costs nothing.
    if len(text) > 1_000:
        return Citation.CITED if text.strip() else Citation.NONE
    plain = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    plain = " ".join(plain.split()).strip(" .。!\"'`*#")
    return Citation.NONE if not plain or plain in _UNCITED else Citation.CITED


def _read_several(values: Iterable[object], depth: int) -> Citation:
    if depth > 3:
        return Citation.UNKNOWN
    try:
        found = {read_citation(value, depth + 1) for value in values}
    except Exception:  # noqa: BLE001 - a list of a class of its own may raise anything
        return Citation.UNKNOWN
    if Citation.CITED in found:
        return Citation.CITED
    return Citation.UNKNOWN if Citation.UNKNOWN in found else Citation.NONE


# A refusal opens a reply or closes it; what lies between costs time and tells nothing.
_HEAD, _TAIL = 12_000, 4_000
_LONGEST_CLAUSE = 500
_LONGEST_JSON = 200_000

_ANSWER_FIELDS = tables.word_list("replies", "answer_fields")
_CITATION_FIELDS = tables.word_list("replies", "citation_fields")
# Around a code fence, and in its first line.
_LONGEST_PREFACE, _LONGEST_LABEL = 300, 20

_SPELLING = tables.table("refusals")["spelling"]
_QUOTES = "‘’‚‛′ʼ＇`´“”„‟″«»「」『』"
_TRANSLATION = str.maketrans(
    _SPELLING["traditional"] + _QUOTES,
    _SPELLING["simplified"] + "'" * 9 + '"' * (len(_QUOTES) - 9),
)
_MARKDOWN = re.compile(
    r"[*~|>]+|(?<!\w)_+|_+(?!\w)|^\s{0,3}#{1,6}\s+|^[^\S\n]*(?:[-+•·]|\d{1,2}[.)])\s+",
    re.MULTILINE,
)
_CONTRACTIONS = [(re.compile(long), short) for long, short in _SPELLING["contractions"]]
_RULE = tables.compiled("refusals", "reading")
_SPACES = re.compile(r"\s+")


def read_reply(
    response: object, citation: object = Citation.UNKNOWN
) -> tuple[Sequence[str], Citation]:
    """Split a reply of any kind into clauses; never raises.

    Each clause is the part of a sentence that says one thing: lower case, negations spelled "not",
    Chinese in simplified characters. There is none where there is nothing to read. What the
    citation field says is the reply's own where it is JSON.

    What is neither text nor bytes has nothing to read. A reply that is JSON (or JSON in a
    code fence, a few words around it) with an answer field is read by its
    fields. Of a very long reply the first and the last part are read.
    """
    read = read_citation(citation)
    text = reply_text(response).strip()
    found = _json_fields(text)
    if found is not None:
        text = reply_text(found[0]).strip()
        read = found[1] if read is Citation.UNKNOWN else read
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    return _clauses(plain(text)), read


def plain(text: str) -> str:
    """`text` in the one spelling that the patterns expect."""
    text = unicodedata.normalize("NFKC", tables.INVISIBLE.sub("", text).translate(_TRANSLATION))
    # One character may have become eighteen.
    text = text[: 2 * (_HEAD + _TAIL)]
    text = _MARKDOWN.sub(" ", text.translate(_TRANSLATION).lower())
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    return _RULE["label"].sub("", text)


def reply_text(response: object) -> str:
    """A reply as clean text; what is neither text nor bytes has none."""
    return clean_text(response) if isinstance(response, str | bytes) else ""


def _clauses(text: str) -> list[str]:
    found = []
    for sentence in _RULE["sentence_end"].split(text):
        for start in range(0, len(sentence), _LONGEST_CLAUSE):
            found += _parts(sentence[start : start + _LONGEST_CLAUSE])
    return found


def _parts(sentence: str) -> list[str]:
    concession = _RULE["concession"].match(sentence)
    end = 0 if concession is None else concession.end()
    parts = [sentence[:end], *_RULE["contrast"].split(sentence[end:])]
    tidied = [_SPACES.sub(" ", part).strip(" ,:-—–") for part in parts]
    return [part for part in tidied if any(unicodedata.category(one)[0] in "LNS" for one in part)]


def _json_fields(text: str) -> tuple[Any, Citation] | None:
    if len(text) > _LONGEST_JSON:
        return None
    text = _unfenced(text)
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value = json.loads(text)
    except NO_JSON:
        return None
    answers = [value[name] for name in _ANSWER_FIELDS if name in value]
    if not answers or not (answers[0] is None or isinstance(answers[0], str)):
        return None
    citations = [value[name] for name in _CITATION_FIELDS if name in value]
    return answers[0], read_citation(citations[0]) if citations else Citation.UNKNOWN


def _unfenced(text: str) -> str:
    """What a code fence holds; found without a regular expression, which blanks could stall."""
    start, end = text.find("```"), text.rfind("```")
    if end < start + 3 or max(start, len(text) - end - 3) > _LONGEST_PREFACE:
        return text
    label, _, body = text[start + 3 : end].partition("\n")
    return body.strip() if len(label.strip()) <= _LONGEST_LABEL else text


_UNITS = re.compile(r"[㐀-鿿豈-﫿]|[^\W_㐀-鿿豈-﫿]+")
_CJK = re.compile(r"[㐀-鿿豈-﫿]")
# A clause of two words, "See below", tells nothing.
_LEAST_UNITS = 3


class Role(IntEnum):
    """What a clause of a reply does; one above 0 refuses, the higher the surer.

    Attributes:
        SOURCE: it speaks of the source.
        COURTESY: it greets, or is too short to tell anything.
        REDIRECT: it names somebody to ask.
        SUBSTANCE: it tells something.
        HINT: wording that real answers have as well ("is not available").
        SILENT: the source does not say ("the context does not mention").
        EXPLICIT: the speaker does not know or cannot answer.
    """

    SOURCE = -3
    COURTESY = -2
    REDIRECT = -1
    SUBSTANCE = 0
    HINT = 1
    SILENT = 2
    EXPLICIT = 3


# The other patterns of a language; `guard/language/refusals.toml` says what each is for.
_OTHERS = ("conditions", "whole", "courtesy", "redirect", "source_talk", "yes_or_no")


# The patterns of one language, over clauses as `read_reply` makes them: what refuses, strongest
# first, and all others by name.
Language = tuple[list[tuple[Role, re.Pattern[str]]], dict[str, re.Pattern[str]]]


@functools.cache
def languages() -> tuple[Language, ...]:
    """English and Chinese; compiling their patterns takes a quarter of a second, once."""
    patterns = tables.table("refusals")
    return _language(patterns["english"]), _language(patterns["chinese"])


def _language(patterns: dict[str, Any]) -> Language:
    def pattern(text: str) -> re.Pattern[str]:
        return re.compile(tables.filled({**patterns["names"], "": text})[""])

    refusals = [
        (role, pattern(text))
        for role in (Role.EXPLICIT, Role.SILENT, Role.HINT)
        for text in patterns[role.name.lower()]
    ]
    return refusals, {name: pattern(patterns[name]) for name in _OTHERS}


def says_nothing(sentence: str) -> bool:
    """Whether a sentence of a reply only declines, greets, or points to a source.

    Example:
        >>> says_nothing("I am sorry, the context does not say."), says_nothing("Five euros.")
        (True, False)
    """
    return not any(
        role is Role.SUBSTANCE or (role is Role.COURTESY and not _is(text, "courtesy", languages()))
        for text, role in ((one, role_of(one)) for one in read_reply(sentence)[0])
    )


def patterns_sha256() -> str:
    """Hexadecimal sha256 of all languages' patterns."""
    lines: list[str] = []
    for refusals, named in languages():
        others = [(0, pattern) for pattern in named.values()]
        lines += [f"{int(role)} {one.pattern}\n" for role, one in (*refusals, *others)]
    return text_sha256("".join(lines))


def units(text: str) -> list[str]:
    """Words, and single Chinese characters."""
    return _UNITS.findall(text)


def is_whole_abstention(clauses: Iterable[str]) -> bool:
    """Whether the reply is one short phrase for "no answer", such as "unknown"."""
    text = " ".join(clauses)
    return len(text) < 60 and _is(text, "whole", languages())


def opens_with_yes_or_no(clause: str) -> bool:
    """Whether the clause begins as the answer to a yes/no question does."""
    return any(others["yes_or_no"].match(clause) for _, others in languages())


def _is(text: str, what: str, tried: Iterable[Language]) -> bool:
    return any(others[what].fullmatch(text) for _, others in tried)


def role_of(text: str) -> Role:
    """What a clause does."""
    # The first is English.
    tried = languages() if _CJK.search(text) else languages()[:1]
    role = max(_refusal(text, *language) for language in tried)
    if role > Role.SUBSTANCE:
        return role
    if _is(text, "courtesy", tried):
        return Role.COURTESY
    if any(others["redirect"].search(text) for _, others in tried):
        return Role.REDIRECT
    if len(units(text)) < _LEAST_UNITS and not any(map(str.isdigit, text)):
        return Role.COURTESY
    if any(others["source_talk"].match(text) for _, others in tried):
        return Role.SOURCE
    return role


def _refusal(
    text: str, refusals: Iterable[tuple[Role, re.Pattern[str]]], others: dict[str, re.Pattern[str]]
) -> Role:
    for role, pattern in refusals:
        found = pattern.search(text)
        if found is not None and not others["conditions"].search(text[: found.start()]):
            return role
    return Role.SUBSTANCE
