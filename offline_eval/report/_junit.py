"""Render checks as a JUnit file, for CI systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ._document import Check, Document
from ._gates import GateResult
from ._text import one_line

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(document: Document, gates: Sequence[GateResult] = ()) -> str | None:
    """Render a test case per gate; without gates the suite's own checks, None if it has none.

    The file holds no time of day, so that the same run gives the same bytes.
    """
    suite = f"knowgate.{document.name}"
    if gates:
        checks: Sequence[Check] = [_gate_check(suite, result) for result in gates]
    elif document.checks is not None:
        checks = document.checks()
    else:
        return None
    failures = str(sum(bool(check.failure) for check in checks))
    counts = {"tests": str(len(checks)), "failures": failures, "errors": "0"}
    root = Element("testsuites", {"name": _clean(suite), **counts})
    holder = SubElement(root, "testsuite", {"name": _clean(suite), **counts, "skipped": "0"})
    for check in checks:
        _add_case(holder, check)
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _gate_check(suite: str, result: GateResult) -> Check:
    return Check(
        group=f"{suite}.gates",
        name=f"fail if {result.gate.text}",
        failure=f"{result.text} (fail if {result.gate.text})" if result.failed else "",
        text=result.text,
    )


def _add_case(holder: Element, check: Check) -> None:
    attributes = {"classname": _clean(check.group), "name": _clean(check.name)}
    if check.seconds is not None:
        attributes["time"] = f"{check.seconds:.3f}"
    case = SubElement(holder, "testcase", attributes)
    if check.failure:
        failure = SubElement(case, "failure", {"message": _clean(check.failure), "type": "gate"})
        failure.text = _clean(check.failure)
    if check.text:
        SubElement(case, "system-out").text = _clean(check.text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("", one_line(text))
