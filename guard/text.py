"""Read questions and passages of any kind as clean text, within limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import InputError, InputTooLargeError, PassageError, QuestionError

# Further names of this module are listed by the package.
__all__ = [
    "clean_text",
    "passage_name",
    "passage_text",
]

# Reading so much takes less than handing it to another thread.
_QUICK_BYTES = 64 * 2**10
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


def passage_text(passage: object) -> str:
    """The text of one passage; empty where there is none to be found.

    Accepts str, bytes, LangChain documents (or anything with `page_content`,
    `text` or `content`), and mappings with one of those keys.
    """
    raw = _raw_text(passage)
    return "" if raw is None else clean_text(raw)


def _raw_text(passage: object) -> str | bytes | None:
    """The text of one passage as it is held; None where there is none, not even an empty one."""
    if isinstance(passage, str | bytes):
        return passage
    in_mapping = isinstance(passage, Mapping)
    for name in _TEXT_FIELDS:
        found: Any = passage.get(name) if in_mapping else getattr(passage, name, None)  # type: ignore[attr-defined]
        if isinstance(found, str | bytes):
            return found
    return None


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
        if isinstance(found, str) and (name := " ".join(clean_text(found).split())):
            return name
    return ""


@dataclass(frozen=True, slots=True)
class InputLimits:
    """The most that a guard reads; bytes are those of UTF-8.

    What is larger is not read to its end. It has the reason `input_too_large` and the route
    that `on_error` has for `input`.

    Attributes:
        question_bytes: of one question.
        passages: for one question, those without text included.
        passage_bytes: of one passage.
        total_bytes: of all passages for one question.
        questions: in one batch; more are an `InputError`.

    Raises:
        InputError: a limit is not a positive whole number.
    """

    question_bytes: int = 64 * 2**10
    passages: int = 1_000
    passage_bytes: int = 2**20
    total_bytes: int = 2 * 2**20
    questions: int = 100_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError("must be a whole number, at least 1", where=one.name)

    def read_question(self, question: object) -> str:
        """The question as clean text.

        Raises:
            QuestionError: it is neither str nor bytes, or there is nothing in it.
            InputTooLargeError: it exceeds the limits.
        """
        if not isinstance(question, str | bytes):
            raise QuestionError(f"the question is a {type(question).__name__}, not text")
        text, _ = _cleaned(question, self.question_bytes, "the question", "question_bytes")
        if not text or text.isspace():
            raise QuestionError("the question is empty")
        return text

    def read_passages(self, passages: object) -> tuple[list[object], list[str]]:
        """The single passages as given, and the text of each, read once; empty for a blank one.

        A lone text or document counts as one passage. An iterator that does not end is read as
        far as the limits go.

        Raises:
            PassageError: `passages` is no collection, or something in it has no text.
            InputTooLargeError: they exceed the limits.
        """
        given: list[object] = []
        texts: list[str] = []
        total = 0
        for passage in _each(passages):
            if len(given) == self.passages:
                raise _too_large(f"there are more than {self.passages} passages", "passages")
            raw = passage if type(passage) is str else _raw_text(passage)
            if raw is None:
                raise PassageError(
                    f"passage {len(given) + 1} is a {type(passage).__name__} without text",
                    hint="give texts, documents with page_content, or mappings with text",
                )
            text, size = _cleaned(raw, self.passage_bytes, "a passage", "passage_bytes")
            total += size
            if total > self.total_bytes:
                what = f"the passages together have more than {self.total_bytes} bytes"
                raise _too_large(what, "total_bytes")
            given.append(passage)
            texts.append(text)
        return given, texts

    @staticmethod
    def reads_quickly(questions: Iterable[object], passages: Iterable[Any]) -> bool:
        """Whether reading takes microseconds: little plain text, and no code of the caller's.

        Args:
            questions: n questions, in a list or tuple.
            passages: n collections of passages, likewise.
        """
        if not all(isinstance(both, list | tuple) for both in (questions, passages)):
            return False
        try:
            room = _QUICK_BYTES - sum(_length(question) for question in questions)
            for those in passages:
                if those is None:
                    continue
                if type(those) not in (list, tuple):
                    return False
                for passage in those:
                    if (text := _held_text(passage)) is None:
                        return False
                    room -= len(text)
                    if room < 0:
                        return False
        except Exception:  # noqa: BLE001 - an odd object, which may take its time
            return False
        return room >= 0


def _length(question: object) -> int:
    return len(question) if type(question) in (str, bytes) else 0  # type: ignore[arg-type]


def _held_text(passage: Any) -> str | None:
    """The text that a plain passage holds; None where code of the caller's may compute it."""
    if type(passage) is str:
        return passage
    held = passage if type(passage) is dict else passage.__dict__
    found = held.get("page_content") or held.get("text")
    return found if type(found) is str else None


def _each(passages: Any) -> Iterable[object]:
    if passages is None:
        return ()
    if isinstance(passages, list | tuple):
        return passages
    # A lone document may be iterable too, over its fields.
    if isinstance(passages, str | bytes | Mapping) or _raw_text(passages) is not None:
        return (passages,)
    if not isinstance(passages, Iterable):
        raise PassageError(f"the passages are a {type(passages).__name__}, not a collection")
    return passages


def _cleaned(raw: str | bytes, most: int, what: str, limit: str) -> tuple[str, int]:
    """Clean text and its bytes.

    Raises:
        InputTooLargeError: there are more than `most`.
    """
    if type(raw) is str and "\x00" not in raw and len(raw) <= most:
        # Nearly always, and quicker.
        if raw.isascii():
            return raw, len(raw)
        try:
            size = len(raw.encode("utf-8"))
        except UnicodeEncodeError:
            size = most + 1
        if size <= most:
            return raw, size
    # Before anything is done with it, and on the base class, since subclasses may raise.
    size = bytes.__len__(raw) if isinstance(raw, bytes) else str.__len__(raw)
    if size <= most:
        text = clean_text(raw)
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        if size <= most:
            return text, size
    raise _too_large(f"{what} has more than {most} bytes", limit)


def _too_large(what: str, limit: str) -> InputTooLargeError:
    return InputTooLargeError(what, hint=f"see {limit} in knowgate.guard.InputLimits")
