"""Extract the meaningful words of questions and statements."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property


def listed(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"'s\b|[{CJK}]|\d+|[^\W\d_{CJK}]+")
_HOLDING = listed(
    "a an the of to in at on for by with from who whom whose what which where when how is are was "
    "were be been being has have had do does did that this it its their and also one both as "
    "person people someone somebody name there s"
)
_ARTICLES = frozenset({"a", "an", "the"})
# Kinds of answers and of names, which one text gives and another leaves out.
_KINDS = listed("city country place location town year sports team")
_HOLDING_ZH = frozenset(
    "的之是谁誰与與和同在了过過为為于於人中什么麼甚哪些个個位曾经經担擔任结結里吗嗎呢由被有又既也并並且而及"
)
_ASKING = ("which", "what")
_AUXILIARIES = listed("is are was were do does did has have had")
_AT = frozenset({"where", "when"})
_OWNED = frozenset({"whose", "its", "their"})
_DANGLING = listed("of to in at on for by with from")
# Words whose forms share too few letters, by what they have in common.
_FAMILIES = {
    word: words[0]
    for words in (
        ("born", "birth", "birthplace"),
        ("died", "death", "die", "dead"),
        ("write", "wrote", "written", "writer", "author"),
        ("marry", "married", "spouse", "wife", "husband"),
        ("win", "won", "winner", "receive", "received", "recipient"),
        ("hold", "held", "holder"),
        ("take", "took", "taken"),
        ("work", "working", "employ", "employed", "employer"),
        ("made", "material"),
        ("stand", "stands", "stood", "site"),
        ("teach", "taught", "teacher"),
        ("sing", "sang", "sung", "singer"),
    )
    for word in words
}
_SHORTEST_STEM = 5


@dataclass(frozen=True, slots=True)
class Word:
    """A word or, in Chinese, a character: folded, and whether it is written as a name."""

    text: str
    named: bool


@dataclass(frozen=True)
class Phrase:
    """The words of a text that carry meaning, in order.

    Attributes:
        words: without those that hold a sentence together.
        shape: what tells a question for the doer from one for what is done to, where the
            words are the same: who killed A, and whom did A kill.
        kind: how many words name the kind of answer asked for, as "award" in "which award".
        kind_at: where those stand among the words.
    """

    words: tuple[Word, ...]
    shape: frozenset[str] = frozenset()
    kind: int = 0
    kind_at: int = 0

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The words as text."""
        return tuple(word.text for word in self.words)

    @cached_property
    def bare(self) -> tuple[str, ...]:
        """As `texts`, without the kind of answer asked for."""
        return self.texts[: self.kind_at] + self.texts[self.kind_at + self.kind :]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each word occurs."""
        return Counter(self.texts)


def fold(text: str) -> str:
    """Compatibility forms and accents folded, apostrophes and dashes made one; case is kept."""
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in split if not unicodedata.combining(c) or c in "\u3099\u309a")
    return unicodedata.normalize("NFC", bare).translate(_ONE_FORM)


_ONE_FORM = str.maketrans({"’": "'", "‘": "'", "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-"})


def is_holding(word: str) -> bool:
    """Whether a lower-case word is a function word."""
    return word in _HOLDING


def words_of(text: str) -> tuple[str, ...]:
    """All words of a folded text in lower case, the possessive aside."""
    return tuple(m.group().casefold() for m in _WORD.finditer(text) if m.group() != "'s")


def read_phrase(text: str) -> Phrase:
    """The meaning words of a folded text.

    Example:
        >>> read_phrase("Hillary Clinton's spouse is?").texts
        ('hillary', 'clinton', 'spouse')
    """
    raw = [m.group() for m in _WORD.finditer(text)]
    words: list[Word] = []
    kind_at = kind = 0
    for index, word in enumerate(raw):
        lower = word.casefold()
        # "Who" within a sentence is a name; at its beginning nobody can tell. Of articles and
        # of the kinds of places nobody can tell anywhere.
        if word == "'s" or lower in _ARTICLES or word in _KINDS:
            continue
        if lower in _HOLDING and (word == lower or not index):
            continue
        if word in _HOLDING_ZH:
            continue
        if not kind and index and raw[index - 1].casefold() in _ASKING and word == lower:
            kind_at, kind = len(words), 1
        elif kind and kind_at + kind == len(words) and raw[index - 1].casefold() == words[-1].text:
            # "which noble title did": all up to the verb that follows.
            kind += _goes_on(raw, index)
        words.append(Word(lower, not word.islower()))
    return Phrase(tuple(words), _shape(raw, text), kind, kind_at)


def _goes_on(raw: list[str], index: int) -> int:
    after = raw[index + 1].casefold() if index + 1 < len(raw) else ""
    return int(raw[index].islower() and raw[index].isascii() and after in _AUXILIARIES)


def _shape(raw: list[str], text: str) -> frozenset[str]:
    found = set()
    lower = [word.casefold() for word in raw]
    # Of places and times, doing and what is done are asked for alike.
    if any(word in ("do", "does", "did") for word in lower) and not _AT.intersection(lower):
        found.add("done to")
    if any(word == "by" for word in lower):
        found.add("by")
    if _OWNED.intersection(lower) or any(ask in text for ask in ("谁的", "誰的")):
        found.add("whose")
    if lower and lower[-1] in _DANGLING:
        found.add("left open")
    if len(lower) > 1 and lower[-1] in "谁誰" and lower[-2] not in "是为為":
        found.add("done to")
    return frozenset(found)


def same_words(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether two phrases say the same in any order, forms of a word aside."""
    if len(first) != len(second):
        return False
    left, right = Counter(first), Counter(second)
    if left == right:
        return True
    rest, others = list((left - right).elements()), list((right - left).elements())
    # So many words that differ make another phrase, whatever their stems.
    if len(rest) > 3:
        return False
    for word in rest:
        partner = next((other for other in others if related(word, other)), None)
        if partner is None:
            return False
        others.remove(partner)
    return True


def related(first: str, second: str) -> bool:
    """Whether two words in lower case are forms of one: "translator" and "translated"."""
    if first == second:
        return True
    if _FAMILIES.get(first, first) == _FAMILIES.get(second, second):
        return True
    shorter, longer = sorted((first, second), key=len)
    if len(longer) - len(shorter) > _SHORTEST_STEM or not shorter.isascii() or shorter.isdigit():
        return False
    if longer in {shorter + end for end in ("s", "d", "ed", "es", "ing")}:
        return True
    if min(len(first), len(second)) > 2 and _bare_verb(first) == _bare_verb(second):
        return True
    stem = max(_SHORTEST_STEM, (7 * len(shorter) + 9) // 10)
    return len(shorter) >= stem and shorter[:stem] == longer[:stem]


def _bare_verb(word: str) -> str:
    for end in ("ing", "ed", "es", "e", "s"):
        if word.endswith(end) and len(word) - len(end) > 1:
            return word.removesuffix(end)
    return word


_FAMILIES_TOPICS = {
    "post": "position post office hold held holding serve served serving take took title "
    "担任 职位 职务 位置 离职 任职 就任 卸任",
    "lead": "charge head chair chairman chairperson president leader led government mayor "
    "governed ruled "
    "负责人 首脑 主席 领队 主教练 教练 主任 领导人 总统",
    "team": "team club play plays played playing player squad belong 效力 球队 球會 团队 俱乐部",
    "prize": "award awarded awards prize receive received receives win won honor honour endowed "
    "获得 奖 授予 荣获 勋章",
    "study": "study studied educated educating education school university college attend attended "
    "graduate 就读 学习 毕业 学校 大学 教育",
    "work": "occupation profession working work worked works employ employed employer "
    "employment job 工作 雇 受雇 就职",
    "marriage": "spouse wife husband marry married divorce partner 配偶 结婚 妻子 丈夫 婚",
    "home": "live lived lives reside resided residence home 居住 住",
    "seat": "headquarter headquarters located 总部",
    "label": "label sign signed 唱片",
    "army": "military army branch serve served serving 军种 军事部门 军队 服役 陆军 海军 空军",
    "jail": "detention prison detained released 关押 拘留 监狱",
    "place": "occupy occupied occupant occupation 占有 占领",
    "part": "part member join joined organization association 成员 加入 组织",
    "coach": "coach coached coaching 主教练 教练 领队",
    "owner": "own owned owner parent 上级 所有 所有者 拥有",
    "play": "perform performed performer performance actor 表演 演员",
    "sport": "sport participate participated participating 参加 参与 运动",
    "successor": "replace replaced successor succeed succeeded 取代 接替 接替者 替代",
    "party": "party 政党 党",
    "nation": "citizenship citizen national renounce 国籍 公民",
}
_ABOUT: dict[str, set[str]] = {}
for _family, _listed in _FAMILIES_TOPICS.items():
    for _word in _listed.split():
        _ABOUT.setdefault(_word, set()).add(_family)


def without_topics(text: str, families: frozenset[str]) -> str:
    """A folded Chinese text without the words of some topics."""
    for word in sorted(_ABOUT, key=len, reverse=True):
        if not word.isascii() and _ABOUT[word] & families:
            text = text.replace(word, " ")
    return text


def topics(text: str) -> frozenset[str]:
    """The topics that the words of a folded text belong to."""
    lower = text.casefold()
    words = set(words_of(lower))
    return frozenset(
        family
        for word, families in _ABOUT.items()
        if (word in words if word.isascii() else word in lower)
        for family in families
    )
