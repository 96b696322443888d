"""JUnit XML, as CI systems show it: one test case per gate or check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ..gates import GateResult
from ._escaping import one_line

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Check:
    """A test case.

    Attributes:
        group: that it belongs to.
        name: unique in the group.
        failure: why it failed; empty where it passed.
        words: what was measured, in one line.
        seconds: that it took; None where that is not known.
    """

    group: str
    name: str
    failure: str
    words: str
    seconds: float | None = None


def gate_checks(suite: str, gates: Sequence[GateResult]) -> list[Check]:
    """A check per gate."""
    return [
        Check(
            group=f"{suite}.gates",
            name=f"fail if {result.gate.text}",
            failure=f"{result.words} (fail if {result.gate.text})" if result.failed else "",
            words=result.words,
        )
        for result in gates
    ]


def junit_xml(suite: str, checks: Sequence[Check]) -> str:
    """The document; it bears no time of day, so that the same run gives the same bytes."""
    failures = str(sum(bool(check.failure) for check in checks))
    counts = {"tests": str(len(checks)), "failures": failures, "errors": "0"}
    root = Element("testsuites", {"name": _text(suite), **counts})
    holder = SubElement(root, "testsuite", {"name": _text(suite), **counts, "skipped": "0"})
    for check in checks:
        attributes = {"classname": _text(check.group), "name": _text(check.name)}
        if check.seconds is not None:
            attributes["time"] = f"{check.seconds:.3f}"
        case = SubElement(holder, "testcase", attributes)
        if check.failure:
            failure = SubElement(case, "failure", {"message": _text(check.failure), "type": "gate"})
            failure.text = _text(check.failure)
        if check.words:
            SubElement(case, "system-out").text = _text(check.words)
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _text(text: str) -> str:
    return _NOT_XML.sub("", one_line(text))
