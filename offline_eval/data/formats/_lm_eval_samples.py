"""Files `samples_<task>_<time>.jsonl`: one object per document and filter.

    doc, doc_id, target            what was asked, and what is right
    arguments                      requests: prompt with settings, or prompt with a continuation
    resps, filtered_resps, filter  raw and filtered responses of those requests
    metrics, <metric>…             names of the metrics, and a value for each

Generation tasks answer with text. Multiple-choice tasks rate each continuation by its
log-likelihood: the likeliest is the reply. Logs of other requests hold no replies.

Source of the format: the documentation of the lm-evaluation-harness, versions 0.4.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ....guard.files import read_json, read_jsonl, read_text
from ....guard.text import clean_text


@dataclass(frozen=True, slots=True)
class _Request:
    """One request.

    Attributes:
        prompt: all of it, examples included; of a chat, the last message of the user.
        choice: the text that was rated; None for a generation.
        response: the first text that came back; None for a rating, and for requests that
            ask for no answer.
        log_likelihood: of the choice, None for a generation.
    """

    prompt: str
    choice: str | None
    response: str | None
    log_likelihood: float | None


def _requests_of(arguments: Any, resps: Any) -> list[_Request]:
    """The requests of a sample that are about its question.

    Choices that are rated without the question, for some metrics, are left out. Where
    prompts differ and the continuation does not, the prompts are the choices.

    Args:
        arguments: a list of argument lists, or objects `gen_args_<n>` of `arg_<n>`;
            anything else holds none.
        resps: one list of responses per request.
    """
    responses = resps if isinstance(resps, list) else []
    found = []
    for number, sent in enumerate(_argument_lists(arguments)):
        prompt = _prompt(sent[0]) if isinstance(sent, list) and sent else None
        if prompt is not None:
            response = responses[number] if number < len(responses) else None
            found.append(_request(prompt, sent[1] if len(sent) > 1 else None, response))
    if len(found) > 1 and len({one.choice for one in found}) == 1 and found[0].choice is not None:
        return [replace(one, choice=one.prompt) for one in found]
    return [one for one in found if one.prompt == found[0].prompt]


def _argument_lists(arguments: Any) -> list[Any]:
    if isinstance(arguments, list):
        return arguments
    if not isinstance(arguments, Mapping):
        return []
    # In the order of the file, which is that of the requests.
    return [list(one.values()) if isinstance(one, Mapping) else one for one in arguments.values()]


def _prompt(found: Any) -> str | None:
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, str):
        return None
    if found.startswith("[{"):
        try:
            messages = json.loads(found)
        except (ValueError, RecursionError):
            return clean_text(found)
        for message in reversed(messages):
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, str) and message.get("role") == "user":
                return clean_text(content)
    return clean_text(found)


def _request(prompt: str, second: Any, response: Any) -> _Request:
    # Repeats of one request: the first counts.
    first = response[0] if isinstance(response, list) and response else response
    if isinstance(second, str):
        return _Request(prompt, clean_text(second), None, _number(first))
    asks = isinstance(second, Mapping) or _number([first]) is None
    text = clean_text(first) if asks and isinstance(first, str) else None
    return _Request(prompt, None, text, None)


def _number(found: Any) -> float | None:
    """The first of `[log-likelihood, is greedy]`; some versions write numbers as text."""
    value = found[0] if isinstance(found, list) and found else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


_NAME = re.compile(
    r"samples_(?P<task>.+?)(?:_\d{4}-\d{2}-\d{2}T[\d.:-]+)?", re.DOTALL | re.IGNORECASE
)
_QUESTION_FIELDS = ("question", "query", "problem", "prompt", "input", "sentence")
_CONTEXT_FIELDS = ("context", "passage")
_NO_METRICS = frozenset(
    {
        "arguments",
        "doc",
        "doc_hash",
        "doc_id",
        "filter",
        "filtered_resps",
        "metrics",
        "prompt_hash",
        "resps",
        "target",
        "target_hash",
    }
)
# What the harness's pattern filters write where a reply does not match.
_NO_MATCH = "[invalid]"
_HINT = "name a samples_*.jsonl that lm-eval wrote with --log_samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a log.

    Attributes:
        where: file and line.
        doc_id: of the document in its task.
        question: the document's own question; else the whole prompt.
        expected: what is right, as text; empty where unknown.
        response: None where the request was no question with a reply.
        context: a text of the document that stood in the prompt beside the question,
            None where there is none.
        filter: name of what made the response of the raw one; empty in older logs.
        metrics: numbers by name; what is no finite number is left out.
    """

    where: str
    doc_id: str
    question: str
    expected: str
    response: str | None
    context: str | None
    filter: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SampleLog:
    """A log file.

    Attributes:
        path: of the file.
        task: by the file's name.
        model: by its folder, as the harness names that; empty where that cannot be told.
        samples: at least one, in the order of the file.
    """

    path: Path
    task: str
    model: str
    samples: tuple[Sample, ...]


def read_samples(path: str | os.PathLike[str]) -> SampleLog:
    """A sample log; JSON lines, or a list as early versions wrote.

    Raises:
        InputError: no such file, a broken line, a line that lacks what makes it a
            sample, or none at all; names file and line.
    """
    file = Path(path)
    samples = tuple(_sample(row, where) for where, row in _rows(path))
    if not samples:
        raise InputError("the log is empty", where=os.fspath(path), hint=_HINT)
    named = _NAME.fullmatch(file.name.removesuffix(file.suffix))
    task = clean_text(named["task"] if named else file.stem)
    return SampleLog(file, task, _model(file), samples)


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not read_text(path).lstrip().startswith("["):
        for number, row in read_jsonl(path):
            yield f"{os.fspath(path)}:{number}", row
        return
    value = read_json(path)
    for number, row in enumerate(value if isinstance(value, list) else ()):
        where = f"{os.fspath(path)}:1: [{number}]"
        if not isinstance(row, dict):
            raise InputError(
                f"expected a JSON object, found {type(row).__name__}", where=where, hint=_HINT
            )
        yield where, row


def _model(file: Path) -> str:
    folder = file.absolute().parent
    # The harness writes results beside samples, in a folder named after the model.
    if "__" in folder.name or any(folder.glob("results*.json")):
        return clean_text(folder.name.replace("__", "/"))
    return ""


def _sample(row: Mapping[str, Any], where: str) -> Sample:
    doc_id = row.get("doc_id")
    name = clean_text(str(doc_id)).strip()
    if isinstance(doc_id, bool) or not isinstance(doc_id, str | int) or not name:
        raise InputError("field 'doc_id' must be text or a whole number", where=where, hint=_HINT)
    filtered = row.get("filtered_resps")
    # Older logs of ratings hold them once.
    requests = _requests_of(row.get("arguments"), row.get("resps") or filtered)
    doc = row.get("doc")
    fields: Mapping[str, Any] = doc if isinstance(doc, dict) else {}
    prompt = requests[0].prompt if requests else ""
    question = _first_text(fields, _QUESTION_FIELDS) or prompt
    if not question.strip():
        raise InputError("the line names no question", where=where, hint=_HINT)
    context = _first_text(fields, _CONTEXT_FIELDS)
    choices = [one.choice for one in requests if one.choice is not None]
    found = row.get("filter")
    return Sample(
        where=where,
        doc_id=name,
        question=question,
        expected=_expected(row.get("target"), choices),
        response=_response(filtered, requests),
        context=context if context and context in prompt else None,
        filter=clean_text(found) if isinstance(found, str) else "",
        metrics=_metrics(row),
    )


def _first_text(fields: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        found = fields.get(name)
        if isinstance(found, str) and found.strip():
            return clean_text(found)
    return None


def _expected(target: Any, choices: Sequence[str]) -> str:
    """The right answer as text; a number is that of a choice."""
    if isinstance(target, list):
        target = next(iter(target), None)
    if isinstance(target, bool) or not isinstance(target, str | int):
        return ""
    text = clean_text(str(target)).strip()
    if choices and re.fullmatch(r"\d{1,6}", text, re.ASCII) and text not in choices:
        return choices[int(text)].strip() if int(text) < len(choices) else ""
    return text


def _response(filtered: Any, requests: Sequence[_Request]) -> str | None:
    raw = requests[0].response if requests else None
    if requests and requests[0].choice is not None:
        rated = [one for one in requests if one.log_likelihood is not None]
        if len(rated) < 2:
            return None
        # The first of equals, as the harness's accuracy has it.
        return (max(rated, key=lambda one: one.log_likelihood or 0.0).choice or "").strip()
    if requests and raw is None:
        return None
    found = filtered
    while isinstance(found, list) and found:
        found = found[0]
    return clean_text(found) if isinstance(found, str) and found != _NO_MATCH else raw


def _metrics(row: Mapping[str, Any]) -> dict[str, float]:
    listed = row.get("metrics")
    names = listed if isinstance(listed, list) else [one for one in row if one not in _NO_METRICS]
    found = {}
    for name in names:
        value = row.get(name) if isinstance(name, str) else None
        if isinstance(value, int | float) and abs(value) < 1e300 and not math.isnan(value):
            found[clean_text(name)] = float(value)
    return {name: value for name, value in found.items() if name.strip()}
