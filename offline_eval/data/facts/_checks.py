"""Rules that find unusable questions, and words as they count them."""

from __future__ import annotations

import re

from .._shared_words import content_words, shared_words

_SOURCE = (
    r"(?:passage|document|text|article|page|paragraph|excerpt|extract|sentence|section|context|"
    r"source|fact|statement|handbook|chapter|snippet|table|figure|author)"
)
_REFERS = re.compile(
    rf"\b(?:this|these|those|above|following|given|provided|preceding|aforementioned)\s+"
    rf"(?:\w+\s+)?{_SOURCE}s?\b"
    rf"|\b(?:according to|in|from|of|by|on|does|do|is|are|did|was)\s+the\s+{_SOURCE}s?\b(?!\s+of\b)"
    r"|\b(?:mentioned|described|listed|stated|shown|as\s+noted)\s+(?:above|below|here|earlier)\b"
    r"|\bthe\s+(?:above|aforementioned)\b",
    re.IGNORECASE,
)
_REFERS_CHINESE = re.compile(
    r"(?:本|该|此|这[篇段份句]|上述|以上|下述|以下)(?:文[章本档件]?|段[落文]?|句子?|资料|材料|内容|事实)"
    r"|文中|上文|下文|根据(?:文章|文本|段落|资料)"
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|hers?|this|these|those)\b", re.IGNORECASE
)
# "Is it an offence to …", "when it rains": stands for nothing before it.
_EMPTY_IT = re.compile(
    r"\b(?:(?:is|was|does|will|can|would)\s+it\s+(?:not\s+)?\w+(?:\s+\w+){0,3}\s+"
    r"(?:to|that|if|when|for|before)\b|it\s+(?:is|was)\s+\w+(?:\s+\w+){0,3}\s+(?:to|that|for)\b"
    r"|it\s+(?:rains?|snows?|is\s+(?:rain|snow|dark|late|early|hot|cold|wet))\w*)",
    re.IGNORECASE,
)
# A name or a noun phrase that a pronoun after it may stand for.
_ANTECEDENT = re.compile(
    r"\b(?:the|an?|any|each|every|your|my|our|all|some|no|someone|somebody|people|if)\b"
    r"|(?<=\w\s)[A-Z]\w+|\b(?!(?:does|this|hers|its|was|has|these)\b)\w{3,}s\b",
)
_THIS_NOUN = re.compile(r"\b(?:this|these|those)\b(?=\s+(?:year|month|week|case|way)\b)", re.I)
_CHINESE_PRONOUN = re.compile(r"^(?:它|他|她|这|那)(?:们|些|个|是)?")
_STOP_WORDS = """
    a an the of to in on at by for from with and or is are was were be been do does did it its as
    that this they their you your he she his her not
"""
_STOP = frozenset(_STOP_WORDS.split())
_CHINESE = re.compile(r"[\u3400-\u9fff]")


def words_of(text: str) -> list[str]:
    """Words in small letters, a Chinese character each; punctuation inside numbers stays.

    Example:
        >>> words_of("Pay $5,000.50, e-mail it")
        ['pay', '5,000.50', 'e-mail', 'it']
    """
    return re.findall(
        r"[\u3400-\u9fff]|\d+(?:[.,:/]\d+)*|[^\W\d_\u3400-\u9fff]+(?:['’-][^\W_\u3400-\u9fff]+)*"
        r"|[^\W_\u3400-\u9fff]+",
        text.lower(),
    )


def refers_to_document(text: str) -> bool:
    """Whether a text speaks of the document that it comes from.

    Example:
        >>> refers_to_document("What does the passage say about tyres?")
        True
        >>> refers_to_document("What must a document of title contain?")
        False
    """
    return bool(_REFERS.search(text) or _REFERS_CHINESE.search(text))


def lacks_antecedent(question: str) -> bool:
    """Whether a question has a pronoun that nothing in it explains.

    Example:
        >>> lacks_antecedent("When does it open?"), lacks_antecedent("Is it legal to turn?")
        (True, False)
    """
    if _CHINESE_PRONOUN.match(question):
        return True
    plain = _THIS_NOUN.sub("", _EMPTY_IT.sub("", question))
    found = _PRONOUN.search(plain)
    return bool(found and not _ANTECEDENT.search(plain[: found.start()]))


def answer_in_question(question: str, answer: str) -> bool:
    """Whether the answer can be read off the question.

    So it is when its words stand there in a row, or when all its words that carry
    meaning do.

    Example:
        >>> answer_in_question("Is the limit 50 km/h?", "50 km/h")
        True
        >>> answer_in_question("What is the limit in a tunnel?", "50 km/h in a tunnel")
        False
    """
    asked, told = words_of(question), words_of(answer)
    if not told:
        return False
    # The spaces keep "art" from standing in "party".
    if f" {' '.join(told)} " in f" {' '.join(asked)} ":
        return True
    content = [word for word in told if word not in _STOP]
    # Two Chinese characters of an answer stand in many a question, out of order.
    return bool(content) and not _CHINESE.search(answer) and set(content) <= set(asked)


COPIED = "copies_passage"
# Of the questions that users put, one in twenty shares more with its passage. Of fewer words
# than these most may be names.
_MOST_SHARED, _FEWEST_WORDS = 0.75, 4


def copy_fault(question: str, passage: str) -> tuple[str, str] | None:
    """What is wrong with a question in the words of its passage; None if nothing.

    Example:
        >>> told = "Borg break-lock removes the lock of a repository after a crash."
        >>> copy_fault("What removes the lock of a repository after a crash?", told)[0]
        'copies_passage'
        >>> copy_fault("My backup died and now everything is blocked, what next?", told) is None
        True
    """
    share = shared_words(question, passage)
    if len(content_words(question)) < _FEWEST_WORDS or share is None or share <= _MOST_SHARED:
        return None
    words = f"{share:.0%} of the question's words stand in the passage: say it in other words"
    return COPIED, words


def question_fault(question: str, answer: str) -> tuple[str, str] | None:
    """What is wrong with a question, as (type, words for whoever wrote it); None if nothing."""
    if not question.strip() or not answer.strip():
        return "empty_question", "question and answer must not be empty"
    if not question.rstrip("\"'”’»）) ").endswith(("?", "？")):
        return "not_a_question", "the question must end with a question mark"
    if refers_to_document(question):
        return "refers_to_document", "the question speaks of the text that it comes from"
    if lacks_antecedent(question):
        return "unclear_reference", "the question has a pronoun without a name before it"
    if answer_in_question(question, answer):
        return "answer_in_question", "the answer stands in the question"
    return None
