"""MRQA files: seven extractive data sets in one layout.

NaturalQuestions, TriviaQA, HotpotQA, SQuAD, BioASQ, TextbookQA and RelationExtraction come
as JSON lines: a header first, then a context with its questions in each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._occurrences import occurrences
from ._raw_questions import RawQuestion, answer_texts, identifier, objects, text_field

_MEND = 'a line needs "context" and "qas", each with "question" and "answers"'
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9_]*(?:=[^<>]*)?/?>")
# A paragraph with a title of its own is a document of its own.
_DOCUMENT = re.compile(r"\[DOC\]|\[PAR\](?=\s*\[TLE\])")
_TITLE = re.compile(r"\[TLE\]\s*(.*?)\s*(?:\[SEP\]|\[PAR\])", re.DOTALL)
_MARK = re.compile(r"\[(?:TLE|SEP|PAR)\]")
_SPACE_BEFORE = re.compile(r"(?<=\w) (?=[,.;:!?](?:\s|$))")
# Brackets, and endings that a tokeniser has split off: `( born 1815 )`, `he 's`, `did n't`.
_SPACE_INSIDE = re.compile(
    r"(?<=[(\[]) +| +(?=[)\]])|(?<=\w) (?=(?:'(?:s|re|ve|ll|d|m|t)|n't)\b)", re.IGNORECASE
)
_QUOTE_PAIR = re.compile(r"(?:``|'')")
_HELD = 20  # documents of a context at most; more would only repeat the answer


def is_mrqa(value: Mapping[str, Any]) -> bool:
    """Whether a first line is a header or a context with its questions."""
    return "header" in value or ("context" in value and "qas" in value)


def mrqa_questions(lines: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[RawQuestion]:
    """The questions of each line.

    Args:
        lines: place in the file and object of each line; headers are skipped.

    Yields:
        Answers are the listed ones and the spellings detected in the context. Questions
        without an answer are left out.

    Raises:
        InputError: a field is missing or of the wrong type.
    """
    for where, line in lines:
        if "header" in line and "context" not in line:
            continue
        sources = documents(text_field(line, "context", where, _MEND))
        for entry in objects(line.get("qas"), "field 'qas'", where, _MEND):
            answers = _answers(entry, where)
            if not answers:
                continue
            held = [text for text in sources if occurrences(text, answers)]
            yield RawQuestion(
                id=identifier(entry, ("qid", "id"), where),
                question=tidy(text_field(entry, "question", where, _MEND)),
                answers=answers,
                sources=tuple((held or sources)[:_HELD]),
                group=f"line {where.rpartition(':')[2]}",  # no path of this machine in results
                where=where,
            )


def documents(context: str) -> tuple[str, ...]:
    """The documents of a context as plain prose, markers and HTML tags taken out.

    A title stays in front of its document, with a full stop.

    Example:
        >>> documents("[PAR] [TLE] Rome [SEP] It is old . [PAR] [TLE] Oslo [SEP] It is cold .")
        ('Rome. It is old.', 'Oslo. It is cold.')
    """
    found = []
    for part in _DOCUMENT.split(context):
        titled = _TITLE.sub(lambda match: f"{match.group(1).rstrip('.')}. ", part, count=1)
        text = tidy(_MARK.sub(" ", titled))
        if re.search(r"\w", text):
            found.append(text)
    return tuple(found)


def tidy(text: str) -> str:
    """Text without HTML tags, with quotation marks, and without a tokeniser's spaces.

    Example:
        >>> tidy("<P> It was `` big '' , they said . </P>")
        'It was " big ", they said.'
        >>> tidy("Ada ( born 1815 ) did n't , Byron 's friend did .")
        "Ada (born 1815) didn't, Byron's friend did."
    """
    text = _QUOTE_PAIR.sub('"', _TAG.sub(" ", text))
    text = _SPACE_INSIDE.sub("", " ".join(text.split()))
    return _SPACE_BEFORE.sub("", re.sub(r'(?<=["\')\]]) (?=[,.;:!?](?:\s|$))', "", text))


def _answers(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    listed = entry.get("answers")
    if isinstance(listed, list):
        listed = [answer for answer in listed if answer != ""]
    if listed:
        found.update(dict.fromkeys(answer_texts(listed, "'answers'", where, _MEND)))
    detected = entry.get("detected_answers")
    if detected:
        for answer in objects(detected, "'detected_answers'", where, _MEND):
            found[text_field(answer, "text", where, _MEND)] = None
    tidied = (tidy(answer) for answer in found)
    return tuple(dict.fromkeys(answer for answer in tidied if answer))
