"""Read questions and passages of any kind as clean text, within limits, and tell their language.

The script tells Chinese, Arabic or Russian from English. Eight languages in Latin script are told
by their function words: of a short text, or one that mixes languages, nothing is said. What a model
knows is asked of scripts alone: it may know French or Malay.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import NoneType
from typing import Any

from pydantic import ConfigDict, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass

from .errors import InputError, InputTooLargeError, PassageError, QuestionError
from .language import entries_by_word, listed
from .read_models import CheckedSettings

# Further names of this module are listed by the package.

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
    raw = raw_text(passage)
    return "" if raw is None else clean_text(raw)


def raw_text(passage: object) -> str | bytes | None:
    """The text of one passage as it is held; None where there is none, not even an empty one."""
    if isinstance(passage, str | bytes):
        return passage
    in_mapping = isinstance(passage, Mapping)
    for name in _TEXT_FIELDS:
        found: Any = passage.get(name) if in_mapping else getattr(passage, name, None)  # type: ignore[attr-defined]
        if isinstance(found, str | bytes):
            return found
    return None


class TextWithMetadata(str):
    """The text of a passage, with the metadata of the document that it was read from.

    Attributes:
        metadata: of the document; empty where there is none.
    """

    __slots__ = ("metadata",)
    metadata: Mapping[str, object]

    def __new__(cls, text: str, metadata: Mapping[str, object]) -> TextWithMetadata:
        """The text, with the metadata beside it."""
        found = super().__new__(cls, text)
        found.metadata = metadata
        return found

    @classmethod
    def of(cls, text: str, document: object) -> TextWithMetadata:
        """The text of a document, with its metadata; what cannot be read counts as none."""
        try:
            metadata = _metadata(document)
        except Exception:  # noqa: BLE001 - a caller's object may raise anything when read
            metadata = None
        return cls(text, metadata if isinstance(metadata, Mapping) else {})


def _metadata(passage: Any) -> Any:
    if isinstance(passage, Mapping):
        return passage.get("metadata")
    return getattr(passage, "metadata", None)


def passage_name(passage: object) -> str:
    """The `title`, or else the `source`, in the metadata of a passage; empty without one."""
    metadata = _metadata(passage)
    if not isinstance(metadata, Mapping):
        return ""
    for field in ("title", "source"):
        found = metadata.get(field)
        if isinstance(found, str) and (name := " ".join(clean_text(found).split())):
            return name
    return ""


@checked_dataclass(frozen=True, config=ConfigDict(strict=True))
class InputLimits(CheckedSettings):
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

    question_bytes: PositiveInt = 64 * 2**10
    passages: PositiveInt = 1_000
    passage_bytes: PositiveInt = 2**20
    total_bytes: PositiveInt = 2 * 2**20
    questions: PositiveInt = 100_000

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
            raw = passage if type(passage) is str else raw_text(passage)
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
        room = _QUICK_BYTES
        try:
            # A plain loop: every decision does it.
            for length in _lengths(questions, passages):
                room -= length
                if room < 0:
                    break
        except Exception:  # noqa: BLE001 - an odd object, which may take its time
            return False
        return room >= 0


@dataclass(frozen=True, slots=True)
class Request:
    """What a signal is measured on: one question with its passages that have text.

    Attributes:
        question: clean text, never empty.
        passages: the texts, in the order given; empty when nothing was retrieved.
        documents: the same passages as they were given, e.g. with metadata.
        positions: the index of each among all passages given.
        given: how many passages were given, those without text included.
        closed_book_answer: the model's own answer, where it was asked for one and its
            confidence passed the policy's threshold; only conflict needs it.
    """

    question: str
    passages: tuple[str, ...] = ()
    documents: tuple[object, ...] = ()
    positions: tuple[int, ...] = ()
    given: int = 0
    closed_book_answer: str = ""


def read_request(
    question: object,
    passages: object,
    limits: InputLimits,
) -> Request | QuestionError:
    """The request, or why there is none; nothing that a caller passes raises here."""
    try:
        text = limits.read_question(question)
        given, texts = limits.read_passages(passages)
    except QuestionError as error:
        return error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a caller's object may raise anything when read
        return QuestionError(f"reading the input raised {type(error).__name__}")
    kept = tuple(index for index, found in enumerate(texts) if found and not found.isspace())
    return Request(
        question=text,
        passages=tuple(texts[index] for index in kept),
        documents=tuple(given[index] for index in kept),
        positions=kept,
        given=len(given),
    )


def read_requests(
    questions: Iterable[object],
    passages: Iterable[object],
    limits: InputLimits,
) -> list[Request | QuestionError]:
    """As `read_request`, for many questions with one collection of passages each.

    Raises:
        InputError: one of the two is no collection, they differ in length, or there are more
            questions than `limits` allow.
    """
    asked = _listed(questions, "questions", limits)
    found = _listed(passages, "passages", limits)
    if len(asked) != len(found):
        raise InputError(
            f"{len(asked)} questions but {len(found)} collections of passages",
            hint="give one collection of passages per question",
        )
    return [read_request(one, its, limits) for one, its in zip(asked, found, strict=True)]


def _listed(values: Any, what: str, limits: InputLimits) -> Sequence[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        one_text = isinstance(values, str | bytes)
        kind = "one text" if one_text else f"a {type(values).__name__}"
        raise InputError(f"the {what} are {kind}", hint="give a list, one item per question")
    most = limits.questions + 1
    found: Sequence[Any] = values if isinstance(values, list | tuple) else [*islice(values, most)]
    if len(found) > limits.questions:
        raise InputError(
            f"more than {limits.questions} questions in one batch",
            hint="see questions in knowgate.guard.InputLimits",
        )
    return found


def _lengths(questions: Iterable[object], passages: Iterable[Any]) -> Iterator[int]:
    """Lengths of plain texts; raises where code of the caller's may compute one."""
    for question in questions:
        yield len(question) if type(question) in (str, bytes) else 0  # type: ignore[arg-type]
    for those in passages:
        if type(those) not in (list, tuple, NoneType):
            raise TypeError
        for passage in those or ():
            held = passage if type(passage) in (dict, str) else passage.__dict__
            text = held if type(held) is str else held.get("page_content") or held.get("text")
            if type(text) is not str:
                raise TypeError
            yield len(text)


def _each(passages: Any) -> Iterable[object]:
    if passages is None:
        return ()
    if isinstance(passages, list | tuple):
        return passages
    # A lone document may be iterable too, over its fields.
    if isinstance(passages, str | bytes | Mapping) or raw_text(passages) is not None:
        return (passages,)
    if not isinstance(passages, Iterable):
        raise PassageError(f"the passages are a {type(passages).__name__}, not a collection")
    return passages


def _cleaned(raw: str | bytes, most: int, what: str, limit: str) -> tuple[str, int]:
    """Clean text and its bytes.

    Raises:
        InputTooLargeError: there are more than `most`.
    """
    if type(raw) is str and raw.isascii() and len(raw) <= most and "\x00" not in raw:
        # Nearly always, and quicker.
        return raw, len(raw)
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


# More than a model reads of a question; a megabyte need not be looked at letter by letter.
_MAX_CHARACTERS = 4000
_LEAST_LATIN = 0.5
_MAX_UNKNOWN = 0.5
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lo"})

# How much of a text is read to tell its language.
_CHARACTERS_READ = 500
_MAX_PASSAGES = 20
# Of Latin letters in names, a text in another script has some.
_MOSTLY = 0.75
# Letters below which a text is short; a Chinese character stands for a word or half of one.
_FEWEST_LETTERS = {"CJK": 5}
_FEWEST_OTHER_LETTERS = 12
_SCRIPTS = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}
_FEWEST_WORDS = 3
# Function words of another language that a text may have, as a share of those of its own.
_MAX_FOREIGN = 0.25
_WORD = re.compile(r"[^\W\d_]+|¿")


# Words that several languages have stand at each, and tell nothing between them.
# In the order of the table, which decides between equal counts.
_LANGUAGES_OF_WORD = entries_by_word("function_words", "common_words")
_ASKED_IN = entries_by_word("question_words")
_LETTERS_OF = entries_by_word("letters")
_ENGLISH = "english"
# How many words of another language stand against one of English.
_FEWEST_FOREIGN, _FOREIGN_PER_ENGLISH = 2, 3


# What is left of "it's" and "don't", and the word that is one letter.
_FUNCTION_WORDS = listed("function_words", _ENGLISH) | {"a", "s", "t"}


def is_function_word(word: str) -> bool:
    """Whether a word in small letters serves the grammar of English rather than the subject.

    Example:
        >>> is_function_word("which"), is_function_word("library")
        (True, False)
    """
    return word in _FUNCTION_WORDS


def latin_share(text: str) -> float | None:
    """Share of Latin letters among all letters, in [0, 1]; None for a text without letters.

    Only the first 4,000 characters count. Accented letters are Latin; signs that modify
    letters, digits and symbols are no letters.

    Example:
        >>> latin_share("Où?"), latin_share("图书馆"), latin_share("1 + 1 = ?")
        (1.0, 0.0, None)
    """
    text = clean_text(text[:_MAX_CHARACTERS])
    found = [script for script in map(_script, text) if script is not None]
    return found.count("LATIN") / len(found) if found else None


def is_readable(text: str, pieces: Sequence[int], unknown: int | None, *, latin_only: bool) -> bool:
    """Whether a model can make something of a text.

    Args:
        text: the question.
        pieces: ids of its word pieces, without [CLS] and [SEP].
        unknown: the id of word pieces that the vocabulary lacks; None where it has all.
        latin_only: whether the model knows no other script than the Latin one.

    Returns:
        False when there are no word pieces, when more than half of them are unknown,
        or, with `latin_only`, when less than half of the letters are Latin.
    """
    if not pieces:
        return False
    if unknown is not None and list(pieces).count(unknown) > _MAX_UNKNOWN * len(pieces):
        return False
    share = latin_share(text) if latin_only else None
    return share is None or share >= _LEAST_LATIN


def in_other_language(question: str, passages: Iterable[str]) -> bool:
    """Whether a question is clearly in another language than its passages.

    False wherever that is not clear: for short questions, for questions and passages that mix
    languages, and for languages that are not told apart.

    Example:
        >>> passages = ["The library is open from nine to five, and closed on the first of May."]
        >>> in_other_language("Wann ist die Bibliothek von Montag bis Freitag offen?", passages)
        True
        >>> in_other_language("When is the Deutsche Bibliothek der Stadt open?", passages)
        False
    """
    asked = language_of(question)
    if asked is None:
        return False
    told: list[str | None] = []
    for text in islice(passages, _MAX_PASSAGES):
        told.append(language_of(text))
        if told[-1] == asked:
            return False
    known = [one for one in told if one is not None]
    return 2 * len(known) >= len(told) and len(set(known)) == 1


def language_of(text: str) -> str | None:
    """The language or script that a text is clearly in; None where it is not clear.

    Example:
        >>> language_of("Who was the first president of the society?")
        'english'
        >>> language_of("图书馆几点开门？"), language_of("Der Spiegel")
        ('CJK', None)
    """
    text = clean_text(text[:_CHARACTERS_READ])
    if text.isascii():
        scripts = Counter(LATIN=sum(map(str.isalpha, text)))
    else:
        scripts = Counter(script for script in map(_script, text) if script is not None)
    if not scripts.total():
        return None
    [(script, letters)] = scripts.most_common(1)
    fewest = _FEWEST_LETTERS.get(script, _FEWEST_OTHER_LETTERS)
    if letters < max(fewest, _MOSTLY * scripts.total()):
        return None
    return _latin_language(text) if script == "LATIN" else script


def foreign_language(text: str) -> str | None:
    """The language of a text in Latin letters that is clearly not English; None for any other.

    Told by function words and by letters that English lacks. Of related languages it may be the
    wrong one: what is promised is that it is not English.

    Example:
        >>> foreign_language("Wann öffnet die Bibliothek?")
        'german'
        >>> foreign_language("Who sings la vida es un carnaval?") is None
        True
    """
    text = clean_text(text[:_CHARACTERS_READ]).lower()
    words = _WORD.findall(text)
    found = [_LANGUAGES_OF_WORD.get(word, []) for word in words]
    counts = Counter(name for those in found if _ENGLISH not in those for name in those)
    counts.update(name for letter in text for name in _LETTERS_OF.get(letter, ()))
    # "Wann startete Sky?" has one word of German, in a place that tells.
    counts.update(name for word in words[:1] for name in _ASKED_IN.get(word, ()))
    if not counts:
        return None
    [(best, count)] = counts.most_common(1)
    # "In", "was" and "die" tell nothing between English and German.
    english = sum(_ENGLISH in those and best not in those for those in found)
    needed = max(_FEWEST_FOREIGN, _FOREIGN_PER_ENGLISH * english + 1)
    return best if count >= needed else None


def _latin_language(text: str) -> str | None:
    words = _WORD.findall(text.lower())
    found = [_LANGUAGES_OF_WORD[word] for word in words if word in _LANGUAGES_OF_WORD]
    counts = Counter(language for languages in found for language in languages)
    [(best, count), (_, second), *_] = [*counts.most_common(), ("", 0), ("", 0)]
    foreign = sum(best not in languages for languages in found)
    clear = count >= _FEWEST_WORDS and count > second and foreign <= _MAX_FOREIGN * count
    return best if clear else None


@lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    """The script of a letter; None for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return None
    words = unicodedata.name(character, "").split() or [""]
    return "LATIN" if "LATIN" in words else _SCRIPTS.get(words[0], words[0])
