"""Rules that find unusable questions, and words as they count them.

`rules.toml` holds the regular expressions and words, by the module that uses them.
"""

from __future__ import annotations

import re

from ..questions import content_words, shared_words
from ..rules import Rules

_RULES = Rules(__file__, "checks")
_RULE, _WORDS = _RULES.patterns, _RULES.words


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
    return _RULES.finds(text, "refers", "refers_chinese")


def lacks_antecedent(question: str) -> bool:
    """Whether a question has a pronoun that nothing in it explains.

    Example:
        >>> lacks_antecedent("When does it open?"), lacks_antecedent("Is it legal to turn?")
        (True, False)
    """
    if _RULES.finds(question, "chinese_pronoun"):
        return True
    plain = _RULE["this_noun"].sub("", _RULE["empty_it"].sub("", question))
    found = _RULE["pronoun"].search(plain)
    return bool(found and not _RULE["antecedent"].search(plain[: found.start()]))


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
    content = [word for word in told if word not in _WORDS["stop"]]
    # Two Chinese characters of an answer stand in many a question, out of order.
    return bool(content) and not _RULE["chinese"].search(answer) and set(content) <= set(asked)


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
