"""Do these passages suffice? Relevance scorers on domains of several kinds.

    OMP_NUM_THREADS=1 python benchmarks/sufficiency.py --data ../shared/data --markdown OUT.md

Per scorer and set: AUROC of "the passages suffice" with a 95 % bootstrap interval over questions;
false abstention, the share of sufficient passages abstained from where 5, 10 and 20 % of the
insufficient ones pass; ECE of the calibrated relevance over ten bins of equal mass; milliseconds
per question with its sufficient passages on one thread, nothing cached, and passages cached.
Passages are taken together as the scorer does by default. Questions in a language that a scorer
does not know are counted apart.

Sets whose insufficient passages answer something else (off the answer) stand apart from those whose
insufficient passages speak of what is asked (on the topic): they differ by .4 in AUROC. The
policy-like domains, answers only, are also averaged, one weight a domain, with a bootstrap over
domains and differences to `--reference`.

`sufficiency+adapted` is `sufficiency`, adapted to the questions of four folds and judged on the
fifth.
`sufficiency+faq` is its mix fitted on the FAQ sites, each site judged by the fit on the others.
A folder whose adapter was trained on FAQ sites may be judged only on the others: name them with
`--sets`.

The negatives of XQuAD-en and of the policy sets are chosen by the bi-encoder, which makes them
hardest for it; those of XQuAD-en-tfidf are chosen by TF-IDF. RGB's sets hold as many snippets with
the answer as without: as published, their number alone tells.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sufficiency_cases import Builder, CaseSet
from sufficiency_domains import domain_left_out, pooled, refitted
from sufficiency_measures import (
    Cell,
    Stopwatch,
    adaptation,
    cell,
    cross_validated,
    measure,
    progress,
    verdict_cells,
)
from sufficiency_report import examples, markdown

from knowgate import __version__
from knowgate.guard import InputError, KnowgateError
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import write_json, write_text
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import scorer_names

SCORERS = ("lexical", "bi_encoder", "late_interaction", "sufficiency", "sufficiency_cross")
ADAPTED = "sufficiency+adapted"
REFITTED = "sufficiency+faq"
CACHE_BYTES = 200 * 2**20
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def machine(clock: str) -> str:
    """Processor, threads, clock and versions, on one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} thread, {clock} clock, Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {np.__version__}, knowgate {__version__}"
    )


def chosen(given: str | None, known: Sequence[str], what: str) -> list[str]:
    """Names from a comma-separated list, which may hold patterns; all known ones without a list.

    Raises:
        InputError: a name is not known, nor a folder.
    """
    if given is None:
        return list(known)
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        matching = [one for one in known if fnmatchcase(one, name)]
        if name and not matching and not os.path.isdir(name):
            raise InputError(f"no {what} {name!r}", hint=f"any of: {', '.join(known)}")
        found += matching or [name] * bool(name)
    return list(dict.fromkeys(found))


def known_scorers() -> list[str]:
    """What this version can be asked for, in the order of the report."""
    found = [name for name in SCORERS if name in scorer_names()]
    return [*found, *(name for name in (ADAPTED, REFITTED) if name.partition("+")[0] in found)]


def cells_of(
    name: str, sets: Sequence[CaseSet], bi_encoder: BiEncoderScorer, clock: str
) -> list[Cell]:
    """One scorer on every set that it can be measured on."""
    if name == ADAPTED:
        adapt = adaptation()
        fitting = [one for one in sets if one.adaptable]
        return [
            cell(name, one, cross_validated(one.cases, adapt, label=f"{name} on {one.name}"))
            for one in fitting
        ]
    if name == REFITTED:
        return domain_left_out(name, sets, refitted())
    # The bi-encoder that ranked the passages has their embeddings already.
    scorer: Any = bi_encoder if name == "bi_encoder" else load_scorer(name)
    watch = Stopwatch(load_scorer(name), CLOCKS[clock])
    return [measure(name, scorer, one, watch) for one in sets]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--scorers", help=f"of {', '.join((*SCORERS, ADAPTED, REFITTED))}; or folders"
    )
    parser.add_argument("--sets", help="comma-separated, FAQ-* is all sites; all without it")
    parser.add_argument(
        "--reference", default="sufficiency", help="scorer that others are held against"
    )
    parser.add_argument("--most", type=int, help="questions per set at most, a seeded sample")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="of the milliseconds")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--examples", type=Path, help="write the worst errors here")
    parser.add_argument("--examples-of", help="whose errors; the last scorer without it")
    return parser.parse_args()


def run(given: argparse.Namespace) -> None:
    """Measure, print the tables and write what was asked for."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    bi_encoder = BiEncoderScorer(device="cpu", cache_bytes=CACHE_BYTES)
    builder = Builder(given.data, bi_encoder, given.most)
    scorers = chosen(given.scorers, known_scorers(), "scorer")
    worst = given.examples_of or scorers[-1]
    if worst not in scorers:
        raise InputError(f"{worst!r} is not measured", where="--examples-of")
    sets = []
    for name in chosen(given.sets, builder.names, "set"):
        progress(f"retrieving for {name}")
        sets.append(builder.build(name))
    cells = [found for name in scorers for found in cells_of(name, sets, bi_encoder, given.clock)]
    cells += [found for one in sets for found in verdict_cells(one)]
    together = pooled(sets, cells, given.reference)
    progress(f"done in {time.perf_counter() - started:.0f} s")
    table = markdown(sets, cells, together, given.reference)
    print(f"{machine(given.clock)}\n\n{table}")
    if given.markdown is not None:
        write_text(given.markdown, f"{machine(given.clock)}\n\n{table}\n")
    if given.json is not None:
        rows = [found.to_dict() for found in cells]
        domains = [one.to_dict() for one in together]
        write_json(given.json, {"machine": machine(given.clock), "cells": rows, "pooled": domains})
    if given.examples is not None:
        write_text(given.examples, examples(worst, cells))


def main() -> None:
    """Run; an input error is one line."""
    try:
        run(arguments())
    except KnowgateError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
