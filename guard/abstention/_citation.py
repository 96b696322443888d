"""Read a reply's citation field."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from enum import StrEnum

_NO_CITATION = frozenset(
    {
        *(
            "no citation",
            "no citations",
            "no source",
            "no sources",
            "no reference",
            "no references",
        ),
        *("no citation available", "no citation found", "no citation provided", "without citation"),
        *("none", "null", "nil", "n/a", "na", "nan", "not applicable", "not available"),
        *("not cited", "uncited", "unknown", "[]", "{}", "()", "-", "--", "-1"),
        *("无", "無", "没有", "沒有", "无引用", "無引用", "没有引用", "沒有引用"),
        *("无来源", "無來源", "没有来源", "沒有來源", "暂无", "暫無"),
    }
)


class Citation(StrEnum):
    """What a citation field says about its reply."""

    UNKNOWN = "unknown"
    NONE = "none"
    CITED = "cited"


def read_citation(value: object) -> Citation:
    """What `value`, a citation field of any shape, says.

    Nothing (None, "", [], {}, False), a negative number, NaN and words such as
    "no citation" say that the reply cites nothing; a number from 0, a text or a
    list that holds any of these say that it cites. Values of other kinds say nothing.

    Example:
        >>> read_citation(0).value, read_citation("No citation.").value, read_citation([-1]).value
        ('cited', 'none', 'none')
    """
    return _read(value, depth=0)


def _read(value: object, depth: int) -> Citation:
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
    return Citation.NONE if not plain or plain in _NO_CITATION else Citation.CITED


def _read_several(values: Iterable[object], depth: int) -> Citation:
    if depth > 3:
        return Citation.UNKNOWN
    try:
        found = {_read(value, depth + 1) for value in values}
    except Exception:  # noqa: BLE001 - a list of a class of its own may raise anything
        return Citation.UNKNOWN
    if Citation.CITED in found:
        return Citation.CITED
    return Citation.UNKNOWN if Citation.UNKNOWN in found else Citation.NONE
