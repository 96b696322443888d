"""Which script and, where it is clear, which language a text is in.

The script tells Chinese, Arabic or Russian from English. Four languages in Latin script are told
by their function words: of a short text, or one that mixes languages, nothing is said. What a model
knows is asked of scripts alone: it may know French or Malay.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice

from .text import clean_text

# More than a model reads of a question; a megabyte need not be looked at letter by letter.
_MOST_CHARACTERS = 4000
_LEAST_LATIN = 0.5
_MOST_UNKNOWN = 0.5
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lo"})

# How much of a text is read to tell its language.
_CHARACTERS_READ = 500
_MOST_PASSAGES = 20
# Of Latin letters in names, a text in another script has some.
_MOSTLY = 0.75
# Letters below which a text is short; a Chinese character stands for a word or half of one.
_FEWEST_LETTERS = {"CJK": 5}
_FEWEST_OTHER_LETTERS = 12
_SCRIPTS = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}
_FEWEST_WORDS = 3
# Function words of another language that a text may have, as a share of those of its own.
_MOST_FOREIGN = 0.25
_WORD = re.compile(r"[^\W\d_]+|¿")
# Words that two of these languages have stand at both, and tell nothing between them.
_FUNCTION_WORDS = {
    "english": "the of and is are what who which how when where why does did do was were to for "
    "with from by that this it at on has have had been be can could would should not or if "
    "many much first used they their there you your my i we as into than about after "
    "before between during in an so am die man war hat will over under near no me",
    "german": "der das und ist sind nicht wie wer wo welche welcher welches welchen welchem wann "
    "warum wofür womit woher wohin wieviel viele von zu mit für auf wurde wurden wird "
    "werden ein eine einen einem einer eines dem den im vom zum zur beim durch nach bei "
    "als auch aus über sich zwischen ich wir sie kann muss haben hatte waren sein seine "
    "ihre unter gab gibt laut in was an so am die man war hat will wen wem wessen gegen",
    "french": "les des du est une dans qui quel quelle quels quelles combien où quand comment "
    "pourquoi pour sur par avec été était étaient sont ont cette ces aux et au ne pas "
    "leur leurs quoi je nous vous ils elle elles fait selon qu il la le de en un se que "
    "es on d l",
    "spanish": "el los las del qué cuál cuáles cuándo cuánto cuántos cuántas cuanto quién quiénes "
    "dónde cómo por para con una fue fueron son y al su sus más cuando hay está tiene "
    "según puedo entre era cual durante desde como la le de en un se que es lo no me ha "
    "han",
}
_MARKS = {"¿": "spanish", "ß": "german"}
_LANGUAGES_OF_WORD: dict[str, set[str]] = {mark: {name} for mark, name in _MARKS.items()}
for _language, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF_WORD.setdefault(_word, set()).add(_language)


def latin_share(text: str) -> float | None:
    """Share of Latin letters among all letters, in [0, 1]; None for a text without letters.

    Only the first 4,000 characters count. Accented letters are Latin; signs that modify
    letters, digits and symbols are no letters.

    Example:
        >>> latin_share("Où?"), latin_share("图书馆"), latin_share("1 + 1 = ?")
        (1.0, 0.0, None)
    """
    text = clean_text(text[:_MOST_CHARACTERS])
    found = [kind for kind in map(_is_latin, text) if kind is not None]
    return sum(found) / len(found) if found else None


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
    if unknown is not None and list(pieces).count(unknown) > _MOST_UNKNOWN * len(pieces):
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
    for text in islice(passages, _MOST_PASSAGES):
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
    if letters < _FEWEST_LETTERS.get(script, _FEWEST_OTHER_LETTERS):
        return None
    if letters < _MOSTLY * scripts.total():
        return None
    return _latin_language(text) if script == "LATIN" else script


def _latin_language(text: str) -> str | None:
    found = [
        _LANGUAGES_OF_WORD[word]
        for word in _WORD.findall(text.lower())
        if word in _LANGUAGES_OF_WORD
    ]
    counts = Counter(language for languages in found for language in languages)
    [(best, count), (_, second), *_] = [*counts.most_common(), ("", 0), ("", 0)]
    foreign = sum(best not in languages for languages in found)
    clear = count >= _FEWEST_WORDS and count > second and foreign <= _MOST_FOREIGN * count
    return best if clear else None


@lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    """The script of a letter; None for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return None
    name = unicodedata.name(character, "").partition(" ")[0]
    return _SCRIPTS.get(name, name)


@lru_cache(maxsize=4096)
def _is_latin(character: str) -> bool | None:
    """Whether a letter is a Latin one; None for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return None
    return "LATIN" in unicodedata.name(character, "").split()
