"""The measures of a report as a data frame of pandas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...guard.errors import optional_import
from ._gates import named_children

if TYPE_CHECKING:
    import pandas

_PLAIN = re.compile(r"[^\s.<>=!\[\]]+")


def measures_frame(values: Mapping[str, Any]) -> pandas.DataFrame:
    """Return one line per measure with an interval: its name, value, interval and n.

    Args:
        values: what `report.json` holds.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pd = optional_import("pandas")
    found = list(_measures(values, ""))
    columns = {
        "measure": pd.Series([name for name, _ in found], dtype="string"),
        **{
            key: pd.Series([one[key] for _, one in found], dtype="float64")
            for key in ("value", "low", "high")
        },
        "n": pd.Series([one.get("n") for _, one in found], dtype="Int64"),
    }
    return pd.DataFrame(columns)


def _measures(value: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what has a value and an interval, by the name that gates take."""
    if isinstance(value, Mapping) and {"value", "low", "high"} <= value.keys():
        yield name, value
        return
    for key, item in named_children(value):
        yield from _measures(item, f"{name}{_part(key, first=not name)}")


def _part(key: str, *, first: bool) -> str:
    if _PLAIN.fullmatch(key):
        return key if first else f".{key}"
    return f"[{key}]"
