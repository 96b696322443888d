"""Questions from a large graph: time and memory, by the number of triples.

    OMP_NUM_THREADS=1 python benchmarks/question_generation.py --triples 1000000 --json figures.json

The graph is made on the fly, from a seed: entities of 12 classes with labels in two languages,
plain facts of 24 properties (values are entities, years or numbers, one or several a subject), and
dated facts of 4 more, as statements with a start and an end. Written as N-Triples, it is read and
turned into questions in English and Chinese in a process of its own, whose peak memory is told.
Not counted: making the graph.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from overhead import machine

from knowgate.guard.files import write_json
from knowgate.offline_eval.data.graph.generation import generate_questions
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings

BASE, SEED = "http://example.org/", 0
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
XSD = "http://www.w3.org/2001/XMLSchema#"
CLASSES, PLAIN, DATED = 12, 24, 4
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "en", "il", "or", "u")]


def name(number: int, words: int) -> str:
    """A name of its own for every number."""
    parts = []
    for _ in range(words * 3):
        number, part = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[part])
    text = "".join(parts)
    return text[: len(text) // 2].capitalize() + " " + text[len(text) // 2 :].capitalize()


def write_graph(stream: IO[str], wanted: int) -> int:
    """Triples as N-Triples, about as many as wanted; how many there are."""
    draw = random.Random(SEED)
    entities = wanted // 10
    written = 0

    def line(subject: str, predicate: str, obj: str) -> None:
        nonlocal written
        stream.write(f"<{subject}> <{predicate}> {obj} .\n")
        written += 1

    for prop in range(PLAIN + DATED):
        line(f"{BASE}p{prop}", LABEL, f'"relation {name(prop, 1).lower()}"@en')
        line(f"{BASE}p{prop}", LABEL, f'"关系{prop}"@zh')
    for entity in range(entities):
        line(f"{BASE}e{entity}", RDF + "type", f"<{BASE}c{entity % CLASSES}>")
        line(f"{BASE}e{entity}", LABEL, f'"{name(entity, 2)}"@en')
        line(f"{BASE}e{entity}", LABEL, f'"实体{entity}"@zh')
    for _ in range(int(0.4 * wanted)):
        prop, subject = draw.randrange(PLAIN), draw.randrange(entities)
        if prop % 6 == 4:
            value = f'"{draw.randint(1500, 2020)}"^^<{XSD}gYear>'
        elif prop % 6 == 5:
            value = f'"{draw.randint(1, 10**6)}"^^<{XSD}integer>'
        else:
            value = f"<{BASE}e{_of_class(draw, prop, entities)}>"
        line(f"{BASE}e{subject}", f"{BASE}p{prop}", value)
    for statement in range(int(0.3 * wanted) // 6):
        node, prop = f"{BASE}s{statement}", PLAIN + draw.randrange(DATED)
        start = draw.randint(1600, 2000)
        line(node, RDF + "type", f"<{RDF}Statement>")
        line(node, RDF + "subject", f"<{BASE}e{draw.randrange(entities)}>")
        line(node, RDF + "predicate", f"<{BASE}p{prop}>")
        line(node, RDF + "object", f"<{BASE}e{_of_class(draw, prop, entities)}>")
        line(node, BASE + "start", f'"{start}"^^<{XSD}gYear>')
        line(node, BASE + "end", f'"{start + draw.randint(1, 20)}"^^<{XSD}gYear>')
    return written


def _of_class(draw: random.Random, prop: int, entities: int) -> int:
    # Few entities are the values of many facts, as in any graph.
    rank = min(int(draw.paretovariate(0.7)), entities // CLASSES - 1)
    return rank * CLASSES + prop % CLASSES


def measure(path: Path, per_type: int) -> dict[str, Any]:
    """One generation in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    settings = GenerationSettings(languages=("en", "zh"), per_type=per_type)
    graph = load_graph(path, languages=settings.languages)
    read = time.perf_counter() - started
    made = generate_questions(graph, settings)
    made.write(path.parent / "set")
    return {
        "triples": graph.triples,
        "read_seconds": read,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "counts": made.counts(),
        "shortfalls": list(made.shortfalls),
        "left_out": made.left_out,
    }


def measure_apart(triples: int, per_type: int) -> dict[str, Any]:
    """`measure` in a process of its own, on a graph made here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nt"
        with path.open("w", encoding="utf-8") as stream:
            write_graph(stream, triples)
        command = [sys.executable, __file__, "--measure", str(path), "--per-type", str(per_type)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    questions = sum(
        sum(kinds.values()) for kinds in found["counts"].get("task1", {}).get("en", {}).values()
    )
    print(
        f"{found['triples']:>10,} triples{questions:>8,} questions a language   read "
        f"{found['read_seconds']:6.1f} s   all {found['seconds']:6.1f} s (CPU "
        f"{found['cpu_seconds']:.1f} s){found['peak_mib']:8.0f} MiB",
        flush=True,
    )
    for sentence in found["shortfalls"]:
        print(f"  {sentence}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--triples", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--per-type", type=int, default=2000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(given.measure, given.per_type)))
        return
    print(f"{machine()}\n")
    found = [measure_apart(triples, given.per_type) for triples in given.triples]
    if given.json is not None:
        write_json(given.json, {"machine": machine(), "graphs": found})


if __name__ == "__main__":
    main()
