"""Hostile questions and passages, and files that are small and mean to be large."""

from __future__ import annotations

import gzip
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from knowgate.guard import Decision, Guard, Policy
from knowgate.guard.signals.relevance import LexicalScorer
from tests.support.hostile import hostile_passages, hostile_value

from .command_line import knowgate
from .outcome import Outcome, tally

_MOST_SECONDS, _MOST_BYTES = 20.0, 1 << 30
ENTITIES = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x" * 1000}">' for i in range(10))
_RDF = (
    '<?xml version="1.0"?><!DOCTYPE rdf:RDF [{declared}]>'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="http://example.invalid/a">'
    "<rdf:value>&e9;</rdf:value></rdf:Description></rdf:RDF>"
)
_LINE = '{"question": "When?", "answer": "At nine."}\n'


def _objects(count: int) -> bytes:
    """A PDF with objects that nobody needs."""
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n<<>>\nendobj\n" % i for i in range(1, count))
    return body + b"trailer\n<< /Size %d /Root 1 0 R >>\n%%%%EOF" % count


# Name → content; documents for `kb build`, graphs for `kg generate`.
DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "deep.json": lambda: b"[" * 200_000 + b"]" * 200_000,
    "deep.html": lambda: b"<div>" * 100_000 + b"text",
    "tables.html": lambda: b"<table><tr><td colspan='100000' rowspan='100000'>x" * 50,
    "cell.csv": lambda: b"question,answer\n" + b"x" * 30_000_000,
    "columns.csv": lambda: b"," * 3_000_000,
    "zeros.txt": lambda: bytes(5_000_000),
    "archive.txt": lambda: gzip.compress(bytes(50_000_000)),
    "line.md": lambda: b"# " + b"a " * 3_000_000,
    "quotes.md": lambda: b">" * 100_000 + b" deep",
    "brackets.md": lambda: b"[" * 100_000,
    "entities.html": f"<!DOCTYPE html [{ENTITIES}]><p>&e9;</p>".encode,
    "entities.xhtml": f"<!DOCTYPE html [{ENTITIES}]><html>&e9;</html>".encode,
    "objects.pdf": lambda: _objects(100_000),
    "header.pdf": lambda: b"%PDF-1.7\n" + bytes(1_000_000),
    "numbers.jsonl": ('{"question": ' + "9" * 100_000 + "}\n").encode,
    "many.jsonl": lambda: b"{}\n" * 500_000,
}
GRAPHS: dict[str, Callable[[], bytes]] = {
    "entities.rdf": lambda: _RDF.format(declared=ENTITIES).encode(),
    "entities.xml": lambda: _RDF.format(declared=f"<!-- ]> -->{ENTITIES}").encode(),
    "entities.owl": lambda: _RDF.format(declared=ENTITIES).encode("utf-16"),
    "entities.rdf.gz": lambda: gzip.compress(_RDF.format(declared=ENTITIES).encode()),
    "external.rdf": lambda: _RDF.format(declared='<!ENTITY e9 SYSTEM "/etc/hostname">').encode(),
    "deep.ttl": lambda: b"<a:a> <a:b> " + b"[ <a:b> " * 20_000 + b"]" * 20_000 + b" .",
    "deep.jsonld": lambda: b"[" * 100_000 + b"]" * 100_000,
}


def too_much(run: Callable[[], bool]) -> bool:
    """Whether a call ended badly, or took more time or memory than any such file is worth."""
    before, started = _peak(), time.process_time()
    orderly = run()
    return (
        not orderly
        or time.process_time() - started > _MOST_SECONDS
        or _peak() - before > _MOST_BYTES
    )


def _peak() -> int:
    # Kilobytes, but bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def decisions(count: int) -> Outcome:
    """Questions and passages of any type and content: a guard answers, and never raises."""
    scorer, random = LexicalScorer(), Random(11)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.3)
    guard = Guard(policy, scorer=scorer, metrics=False)
    raised = 0
    for _ in range(count):
        question, passages = hostile_value(random), hostile_passages(random)
        try:
            raised += not isinstance(guard.decide(question, passages), Decision)
        except BaseException:  # noqa: BLE001 - also SystemExit and MemoryError of the input
            raised += 1
    return Outcome("hostile question or passages without a decision", count, raised)


def files(folder: Path) -> Iterator[Outcome]:
    """Small files that would become large."""
    kinds = {"document": (DOCUMENTS, ("kb", "build")), "graph": (GRAPHS, ("kg", "generate"))}
    for kind, (contents, command) in kinds.items():
        cases = []
        for name, content in contents.items():
            path = folder / kind / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content())
            cases.append((name, path))

        read = partial(_orderly, command)
        yield tally(
            f"{kind} that takes {_MOST_SECONDS:.0f} s, a gigabyte, or ends badly",
            cases,
            partial(_too_much_of, read),
        )


def _orderly(command: tuple[str, str], path: Path) -> bool:
    return knowgate(*command, path, "--out", path.with_suffix(".out")).orderly


def _too_much_of(read: Callable[[Path], bool], path: Path) -> bool:
    return too_much(lambda: read(path))


def questions(folder: Path) -> Outcome:
    """Files of questions that are damaged, read by every command that reads questions."""
    texts = {
        "a lone surrogate": _LINE.replace("When?", "\\ud800"),
        "another type": _LINE.replace('"When?"', "[1]"),
        "no object": "[1]\n",
        "half a line": _LINE + _LINE[:20],
        "zeros": "\0" * 1000,
        "deep": "[" * 100_000,
        "a number of thousands of digits": '{"question": "q", "answer": ' + "9" * 20_000 + "}",
        "an id twice": json.dumps({"id": "a", "question": "q", "answer": "b"}) * 2,
    }
    commands = (("measure", "--scorer", "lexical"), ("calibrate", "--dry-run"), ("eval", "ookb"))
    cases: list[tuple[str, tuple[str, ...]]] = []
    for name, text in texts.items():
        path = folder / f"{len(cases)}.jsonl"
        path.write_text(text, encoding="utf-8")
        for command in commands:
            given = ["--questions", path]
            if command[0] == "eval":
                given += ["--replay", path]
            line = (*command, *map(str, given), "--out", str(folder / "out.jsonl"))
            cases.append((f"{name} ({command[0]})", line))
    return tally("damaged file of questions", cases, lambda line: not knowgate(*line).orderly)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Ask anything, and read anything."""
    yield decisions(12_000 if full else 300)
    yield questions(folder)
    if full:
        yield from files(folder)
