"""Read questions and passages of any kind as clean text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import QuestionError

__all__ = ["clean_text", "passage_name", "passage_text"]

_TEXT_FIELDS = ("page_content", "text", "content")


def clean_text(value: str | bytes) -> str:
    """Text that every tokenizer and encoder accepts.

    Bytes are read as UTF-8 with replacement; lone surrogates, which cannot be
    encoded, become U+FFFD; NUL becomes a space.

    Example:
        >>> clean_text("a\\x00b\\ud800")
        'a b\ufffd'
    """
    # Called on the base class: a subclass of str may have methods of its own, which may raise.
    text = bytes.decode(value, "utf-8", "replace") if isinstance(value, bytes) else value
    text = str.__str__(text)
    if "\x00" in text:
        text = text.replace("\x00", " ")
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def question_text(question: object) -> str:
    """The question as clean text.

    Raises:
        QuestionError: it is neither str nor bytes, or there is nothing in it.
    """
    if not isinstance(question, str | bytes):
        raise QuestionError(f"the question is a {type(question).__name__}, not text")
    text = clean_text(question)
    if not text.strip():
        raise QuestionError("the question is empty")
    return text


def passage_text(passage: object) -> str:
    """The text of one passage; empty where there is none to be found.

    Accepts str, bytes, LangChain documents (or anything with `page_content`,
    `text` or `content`), and mappings with one of those keys.
    """
    if isinstance(passage, str | bytes):
        return clean_text(passage)
    for name in _TEXT_FIELDS:
        found: Any = (
            passage.get(name) if isinstance(passage, Mapping) else getattr(passage, name, None)
        )
        if isinstance(found, str | bytes):
            return clean_text(found)
    return ""


def passage_name(passage: object) -> str:
    """The `title`, or else the `source`, in the metadata of a passage; empty without one."""
    metadata: Any = (
        passage.get("metadata")
        if isinstance(passage, Mapping)
        else getattr(passage, "metadata", None)
    )
    if not isinstance(metadata, Mapping):
        return ""
    for field in ("title", "source"):
        found = metadata.get(field)
        if isinstance(found, str) and found.strip():
            return " ".join(clean_text(found).split())
    return ""


def passage_list(passages: object) -> list[object]:
    """The single passages as given; a lone string or document counts as one passage.

    Raises:
        QuestionError: `passages` is neither None, text nor iterable.
    """
    if passages is None:
        return []
    if isinstance(passages, list | tuple):
        return list(passages)
    # A lone document may be iterable too, over its fields.
    if isinstance(passages, str | bytes | Mapping) or passage_text(passages):
        return [passages]
    if not isinstance(passages, Iterable):
        raise QuestionError(f"the passages are a {type(passages).__name__}, not a sequence")
    return list(passages)
