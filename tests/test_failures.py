"""Each row of docs/failures.md names tests, metrics and reasons that exist."""

from __future__ import annotations

import re
from functools import cache

from knowgate.guard import Reason
from tests.support.paths import ROOT

PAGE = ROOT / "docs/failures.md"


def rows() -> list[list[str]]:
    """The cells of all rows of the page, headings left out."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith("| ")
    ]
    return [row for row in cells if row[0] != "fault"]


@cache
def names_of_tests() -> frozenset[str]:
    """Names of all test functions."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(
        name for text in sources for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.M)
    )


def test_a_row_names_what_is_seen_a_metric_and_tests_that_exist() -> None:
    for row in rows():
        fault, seen, metric, named = row
        assert fault
        found = re.findall(r"`(\w+)`", named)
        assert found
        assert set(found) <= names_of_tests(), sorted(set(found) - names_of_tests())
        metrics = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
        for name in re.findall(r"`(knowgate_\w+)", metric):
            assert f"`{name}`" in metrics
        reasons = {one.value for one in Reason}
        for reason in re.findall(r"abstention[^|]*?`(\w+)`", seen) + re.findall(
            r'reason="(\w+)"', metric
        ):
            assert reason in reasons, reason
