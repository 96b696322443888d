"""Reading data sets: the microworld, MRQA, SQuAD-style JSON and plain JSON lines."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from ...guard import InputError
from ._cases import SuiteQuestion
from ._datasets import Dataset, instructed_prompts
from ._microworld_source import MICROWORLD, microworld_dataset
from ._mrqa import is_mrqa, mrqa_questions
from ._plain import plain_questions
from ._raw_questions import RawQuestion, merged_questions
from ._squad import squad_questions

_GZIP = b"\x1f\x8b"
_MEND = "use MRQA or plain JSON lines, or SQuAD-style JSON"


def read_dataset(
    spec: str | os.PathLike[str],
    *,
    name: str | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """A data set of the suite.

    Args:
        spec: `microworld`, or a file: MRQA `.jsonl` or `.jsonl.gz`, SQuAD-style `.json`, or
            JSON lines with `question` and `answers` (or `answer`), `context` or `passages`,
            `id` and `group`. What a file is, its content tells, not its name.
        name: what tables call it; the file's name without endings by default.
        limit: at most that many questions, drawn by `seed`, in their order; all by default.
        seed: also picks the phrasing of each of the microworld's questions.

    Returns:
        At least one question.

    Raises:
        InputError: no such file, or something in it is wrong; the message names file and
            line, or the place inside a JSON document.
    """
    if limit is not None and limit < 1:
        raise InputError("must be at least 1", where="limit")
    if os.fspath(spec) == MICROWORLD:
        dataset = microworld_dataset(name=name or MICROWORLD, seed=seed)
    else:
        path = Path(spec)
        name = name or path.name.split(".")[0] or path.name
        questions = merged_questions(_raw_questions(path), name)
        if not questions:
            raise InputError("there is no question with an answer", where=str(path), mend=_MEND)
        dataset = Dataset(name, questions, instructed_prompts())
    return replace(dataset, questions=_drawn(dataset.questions, limit, seed))


def _drawn(
    questions: tuple[SuiteQuestion, ...], limit: int | None, seed: int
) -> tuple[SuiteQuestion, ...]:
    if limit is None or limit >= len(questions):
        return questions
    picked = Random(f"uniknow/limit/{seed}").sample(range(len(questions)), limit)  # noqa: S311
    return tuple(questions[index] for index in sorted(picked))


def _raw_questions(path: Path) -> Iterator[RawQuestion]:
    text = _text(path)
    if (document := _whole_document(text)) is not None:
        return squad_questions(document, str(path))
    lines = list(_lines(text, str(path)))
    if not lines:
        raise InputError("the file is empty", where=str(path), mend=_MEND)
    return mrqa_questions(lines) if is_mrqa(lines[0][1]) else plain_questions(lines)


def _text(path: Path) -> str:
    """The UTF-8 text of a file, unpacked if it is packed."""
    where = str(path)
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such file", where=where, mend="check the path") from None
    except IsADirectoryError:
        raise InputError("is a folder, not a file", where=where, mend="name a file") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            "not UTF-8 text", where=f"{where}:{line}", mend="save the file as UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError("broken gzip file", where=where, mend="fetch it again") from None
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=where, mend="check the permissions"
        ) from None
    except ValueError:  # a NUL in the path
        raise InputError("no such path", where=repr(where), mend="check the path") from None


def _whole_document(text: str) -> Mapping[str, Any] | None:
    """The SQuAD-style document that the text is; None where it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "data" in value else None


def _lines(text: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Not splitlines(): U+2028 and friends are legal inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            fallback = "nested too deeply" if isinstance(error, RecursionError) else "a long number"
            raise InputError(
                f"broken JSON ({getattr(error, 'msg', fallback)})", where=where, mend=_MEND
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"expected a JSON object, found {type(value).__name__}", where=where, mend=_MEND
            )
        yield where, value
