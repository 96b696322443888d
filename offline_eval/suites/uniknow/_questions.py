"""Read the data sets of the suite: bundled ones, and files of questions about passages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

from ...data.formats.reading_comprehension import read_reading_comprehension
from ._bundled import (
    FACTS,
    FACTS_FILE,
    MICROWORLD,
    fact_questions,
    microworld_questions,
    prompts_of,
)
from ._cases import Dataset, Question

_BUNDLED = {MICROWORLD: microworld_questions, FACTS: fact_questions}


def read_dataset(
    spec: str | os.PathLike[str], *, limit: int | None = None, seed: int = 0
) -> Dataset:
    """Read a data set of the suite.

    Args:
        spec: `microworld`, `facts`, or a file: MRQA `.jsonl` or `.jsonl.gz`, SQuAD-style
            `.json`, or JSON lines with `question` and `answers` (or `answer`), `context` or
            `passages`, `id` and `group`. The content decides which format it is, not the name.
        limit: at most that many questions, drawn by `seed`, in their order; all by default.
        seed: also picks the phrasing of each bundled question.

    Returns:
        At least one question.

    Raises:
        InputError: no such file, or something in it is wrong; the message names file and
            line, or the place inside a JSON document.
    """
    bundled = _BUNDLED.get(os.fspath(spec))
    if bundled is not None:
        questions = bundled(seed=seed)
    else:
        path = Path(spec)
        name = path.name.split(".")[0] or path.name
        questions = tuple(
            Question(one.id, one.question, one.answers, name, one.group, one.passages)
            for one in read_reading_comprehension(path)
        )
    if limit is not None and limit < len(questions):
        picked = Random(f"uniknow/limit/{seed}").sample(range(len(questions)), limit)  # noqa: S311
        questions = tuple(questions[index] for index in sorted(picked))
    return dataset_of(spec, questions)


def dataset_of(spec: str | os.PathLike[str], questions: Sequence[Question]) -> Dataset:
    """Return the data set of some questions, at least one.

    Args:
        spec: as for `read_dataset`.
        questions: that were read.
    """
    bundled = os.fspath(spec) if os.fspath(spec) in _BUNDLED else ""
    return Dataset(questions[0].dataset, tuple(questions), prompts_of(spec), bundled)


def question_file(spec: str | os.PathLike[str]) -> Path | None:
    """Return the file that the questions of a data set are read from; None for the microworld."""
    name = os.fspath(spec)
    return None if name == MICROWORLD else FACTS_FILE if name == FACTS else Path(spec)
