"""Replies that say that what was asked for does not exist, in English and Chinese.

Patterns are read in sentence case: a title such as "No Such Thing" is a name, "no such thing"
abstains. Where a long reply ends in "the answer is …", a name there outweighs what was
said on the way to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from typing import Literal, Protocol

from ....guard.abstention import AbstentionDetector
from ....guard.abstention.detector import load_rule
from ...data.graph.items import QuestionType, UaqItem

_SPACES = re.compile(r"\s+")
_CURLY = str.maketrans("‘’ʼ", "'''")
_CONTRACTED = re.compile(r"\b(do|does|did|is|are|was|were|has|have|had)n't\b", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE_START = re.compile(r"(?:^\W*|[.!?:]\s+\W*)[A-Z]")
# An abstention says so early; a long answer that mentions absence late is an answer.
_READ = 400

# The marker that prompts ask for, and words that stand for it alone.
_MARKER = re.compile(
    r"#+\s*none\b|∅|^\W*(?:no|none|nil|null|n/?a)\W*$"
    r"|^\W*none(?=\s*[.,;:!)–—(\[-]|\s+(?:is|are|was|were|exists?|existed|found|known|that|as"
    r"|because|since|of (?:the|these|those|them|us|both|either|its|his|her|their))\b)"
    r"|\b(?:is|are|be)\s*:?\s*[\"'(]*none\W*$"
    r"|^\W*no (?:such )?(?:(?:suitable|correct|valid|right) )?(?:answer|person|one|match|overlap)"
    r"\W*$"
    r"|^(?:not applicable|not possible|impossible|invalid(?: question)?|trick question)\b",
    re.IGNORECASE,
)
# Said of what does not exist. Each names the absence itself: "there is no doubt" names none.
_THING = (
    r"(?:such|suitable|valid|correct|right|known|single|common|real|matching|possible|answers?"
    r"|person|people|one|options?|intersection|overlap|record|individual|entity|team|position|work"
    r"|candidate|match)\b"
)
_OFFICE = r"(?:positions?|office|title|role|post|team|club|party|employer|spouse|such|official)\b"
_NOT_BUT = r"(?!.*\b(?:but|instead|rather|however|only|other than|except|besides)\b)"
_BEGUN = (
    r"(?:born|founded|established|created|formed|built|opened|completed|introduced|started|begun"
    r"|in existence|in office|alive|exist\w*)\b"
)
_MEETS = (
    r"(?:exists?|existed|meets?|met|satisf\w+|match\w*|fits?|holds?|held|is known|was found|is both"
    r"|was both|has both|has been both|is listed|fulfil\w*|did both|does both)\b"
)
_ABSENCE_EN = re.compile(
    r"(?<!though )\bthere (?:is|are|was|were|appears? to be|seems? to be) (?:no|not any|not an?) "
    rf"(?:\w+ )?{_THING}|\bthere (?:do|does|did) not (?:appear|seem) to be\b"
    r"|\bthere (?:is|are) (?:none|nobody|no one|not (?:one|any))\b"
    rf"|^there (?:is|are|was|were) no (?!doubt|question|need|dispute|way|other\b|longer)"
    rf"{_NOT_BUT}[^,;]*$"
    r"|^(?:no one|nobody|nothing|nowhere|no person|no such \w+)(?=\W*$|[.,;:!]"
    r"| (?:is|was|were|has|had|have|did|does|both|fulfil\w*|played|serv\w+|won)\b"
    rf"| {_MEETS}| (?:in|at|of|from|between|during) (?:\d|th(?:e|is|at|ese|ose)\b|both|either|any))"
    r"|^no (?=[a-z]|[A-Z]{2,}\b)(?:\w+ ){1,10}?"
    rf"(?:{_MEETS}|(?:is|was|are|were|has|had)\b){_NOT_BUT}"
    r"|(?:[,:]| is| that| be) (?:no one|nobody|none|nothing|neither)\W*$|\bneither\W*$"
    r"|\bthat (?:no one|nobody|nothing|no such)\b|\bno \w+ in common\b"
    r"|\bno (?:suitable|valid|correct|right|such|common|matching|possible) [a-z]\w*"
    r"|\b(?:neither|none) of (?:the(?! others?\b)|these|those|them|both|either)\b"
    r"|^neither(?=\W*$|[.,;:] | (?:of|is|was|are|were|one|option|answer|did|has|had)\b)"
    r"|^neither (?![hH]ere nor [tT]here)\S.*\bnor\b(?! \w+ \w+ed\b)"
    r"|\b(?:is|was|are|were) neither\b(?!.*[;,] (?:but|it is)\b)|\bneither (?:option|one|answer)\b"
    r"|^not any\b|^not [^,;]{1,60} (?:and not|nor) " + _NOT_BUT + r""
    rf"|\bnot yet (?:been )?{_BEGUN}|\bnot been \w+ yet\b"
    r"|\b(?:do|does|did) not (?:exist(?! as such)|overlap|intersect|apply)\b"
    r"|\b(?:had|was) already (?:died|dead)\b"
    rf"|\b(?:did|does|do|has|have|had|was|were|is|are) not (?:\w+ ){{1,5}}any\b(?! other){_NOT_BUT}"
    rf"|\b(?:did|does|do) not (?!have )\w+ (?:for |to |in )?(?:an?|either)\b{_NOT_BUT}"
    rf"|\b(?:did|does|has|had|was|is) not (?:\w+ ){{0,2}}(?:hold|holding|held|in office){_NOT_BUT}"
    rf"|\bnot (?:yet )?(?:been )?{_BEGUN}{_NOT_BUT}"
    rf"|\b(?:held|holds|had|has|played for|belonged to|served in|won) no "
    rf"(?!other\b)(?:\w+ )?{_OFFICE}"
    r"|\b(?:no|not any) (?:answer|overlap|intersection)\b"
    r"|\b(?:both|the) (?:options|choices|answers) (?:\w+ ){0,3}(?:are|is|were)"
    r" (?:wrong|incorrect|false)\b|\bboth (?:are|were) (?:wrong|incorrect|false)\b"
    r"|\bnon-?existent\b|\bquestion (?:has|is) (?:no answer|unanswerable|invalid)\b"
    r"|\bpremise\b.{0,40}\b(?:incorrect|false|wrong|flawed|mistaken|invalid)\b"
    r"|\bfalse (?:premise|dilemma)\b|\bempty (?:set|intersection)\b"
    r"|\b(?:intersection|overlap|sets?)\b.{0,40}\bis empty\b"
    r"|\bquestion (?:contains|has) (?:an error|a (?:false|wrong))"
)
_NONE_ZH = "(?:没有|沒有|无|無)"
_ABSENCE_ZH = re.compile(
    f"{_NONE_ZH}(?:合适|合適|适合|適合|正确|正確|任何|此类|此類|交集|共同|重叠|重疊|对应|對應|匹配|相应|相應|答案|一个|一個"
    "|(?:这|這)(?:样|樣|个|個|种|種))"
    f"|{_NONE_ZH}[^，。；]{{0,4}}(?:同时|同時|满足|滿足|符合)"
    "|不存在(?!的)|不存在的(?:人物?|答案|选项|選項|职位|球队|情况|组合|交集)(?:$|[。，])"
    "|(?:无|無|没有|沒有|没|沒)人(?=$|[。，,.!！]|能|可|与|同|既|曾|担任|擔任|任职|在|获|獲|是(?!一座))"
    "|(?:没有|沒有|未|不曾|未曾)[^，。；]{1,10}任何"
    "|(?:尚未|还未|還未|还没有?|還沒有?)(?:被)?(?:出生|成立|建立|建成|建国|创立|創立|创建|存在|出现|诞生|独立|任职|就任|担任|擔任|加入|开始|開始)"
    "|(?:没有|沒有)哪|(?:两者|兩者|选项|選項)?(?:都|均|皆)(?:没有|沒有|未)(?!其他|别的)"
    "|既(?:不|没有|沒有|未)[^。；]{1,20}也(?:不|没有|沒有|未)|既非[^。；]{1,20}(?:也|亦)非"
    "|(?:空集|(?:交集|结果|結果)(?:为|為|是)空)(?:$|[。，])"
    "|(?:均|都|皆)不(?:正确|正確|对|對|是|成立|符合)"
    "|(?:均|都|皆)(?:错误|錯誤)|皆非|(?:两者|兩者)皆不|以上(?:皆|都)不"
    "|(?:查|并|並)?(?:无|無)此(?:人|记录|記錄|答案)"
    "|(?:^|[，。 ]|题|題|问|問|是)(?:无|無)解(?:$|[。，])"
    "|前提(?:条件|條件)?(?:本身)?(?:是)?(?:有误|有誤|错误|錯誤|不成立|不正确|不正確|不存在|有问题)"
    '|(?:^|答案(?:是|为|為|應為|应为)?[:：]?\\s*[“"]?)(?:没有|沒有|无|無|否)[”"]?[。.!！]?$'
)
# What a reply comes to in the end; a name there is an answer, whatever led to it.
_CONCLUSION = re.compile(
    r"(?:^|.*[.;,\n] ?)(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my) (?:final |correct )?answer"
    r"(?: is| would be)\s*:?|answer\s*:)\s*(?P<en>[^.!?,;]{1,80})(?:[,;.!]|\W*$)"
    "|(?:^|.*[。，；])(?:因此|所以|综上|綜上|最终|最終)?，?(?:我的)?答案(?:是|为|為)[:：]?"
    "(?P<zh>[^。！，；]{1,30})(?:[。！，；]|$)",
    re.IGNORECASE,
)
# "Nobody but him" names him.
_EXCEPTED_ZH = re.compile("除了?[^，。]{1,30}，?(?:没有|沒有|无|無)[^。，]*")
_NO_NAME = re.compile(
    r"^(?:that|there|un(?:known|clear|certain)|hard|difficult|impossible|in no)\b|\bno[tr]?\b"
    r"|n't\b|\bcannot\b|\bneither\b|\bnobody\b|\bnothing\b|\bnone\b|\bunable\b|[不没沒无無未非空否]",
    re.IGNORECASE,
)


def says_absence(reply: str) -> bool:
    """Whether a reply says that nothing meets what was asked.

    Example:
        >>> says_absence("No such person exists."), says_absence("No Such Thing")
        (True, False)
    """
    text = plain(reply)
    text = _EXCEPTED_ZH.sub("", text)
    return any(pattern.search(text) for pattern in (_MARKER, _ABSENCE_EN, _ABSENCE_ZH))


def concludes(reply: str) -> bool:
    """Whether a reply ends in "the answer is …" with something like a name.

    Example:
        >>> concludes("No child of his is known. So the answer is Ann Li.")
        True
    """
    match = _CONCLUSION.match(_SPACES.sub(" ", _MARKUP.sub("", reply.strip())))
    if match is None:
        return False
    name = (match.group("en") or match.group("zh") or "").strip()
    return bool(name) and not _NO_NAME.search(name)


def plain(reply: str) -> str:
    """The part of a reply that is read: no markup, plain letters, sentences in lower case."""
    text = unicodedata.normalize("NFKC", reply[:_READ]).translate(_CURLY)
    text = _SPACES.sub(" ", _MARKUP.sub("", text)).strip().lstrip("-–—>\"'“”() ")
    text = re.sub(r"^(?:final )?(?:answer|a|答案)\s*[:：]\s*", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\bthere's\b", "there is", text, flags=re.IGNORECASE)
    text = _CONTRACTED.sub(r"\1 not", text)
    if text.isupper():
        return text.lower()
    return _SENTENCE_START.sub(lambda match: match.group().lower(), text)


RuleName = Literal["published", "strict"]


class RefusalRule(Protocol):
    """Tells replies that abstain from replies that name an answer."""

    def __call__(self, replies: Sequence[str]) -> list[bool]:
        """One verdict per reply, in order."""
        ...


def published_refusals(replies: Sequence[str]) -> list[bool]:
    """The rule as the authors coded it; see `knowgate.guard.abstention.load_rule`."""
    return [verdict.abstained for verdict in load_rule("uaqfact").detect_many(list(replies))]


def strict_refusals(replies: Sequence[str]) -> list[bool]:
    """The bundled detector, or a reply that says that there is no such answer.

    Example:
        >>> strict_refusals(["##None##", "Nobody.", "不存在这样的人", "Not Joe, but Ann."])
        [True, True, True, False]
    """
    detector = AbstentionDetector()
    return [
        (says_absence(reply) or verdict.abstained) and not concludes(reply)
        for reply, verdict in zip(replies, detector.detect_many(list(replies)), strict=True)
    ]


_NEGATED_EN = re.compile(
    r"(?:\bnot|\bnor|\bneither|\brather than|\binstead of|\bisn't)\W+(?:the )?$"
)
_NEGATED_ZH = re.compile('(?:不是|并非|並非|而非|不选|不選|排除)[“"《「『]?$')
_DENIED_AFTER = re.compile(
    r"\W{0,3}(?:(?:is|was|are|were) (?:not(?! only)|wrong|incorrect|false)|(?:isn't|wasn't)\b"
    "|(?:都|均|也)?(?:不是|不对|不對|不正确|不正確|是错|是錯))"
)
# Written in one way: quotes, dashes, the dots between the parts of a name; no markup.
_ONE_WAY = str.maketrans("‘’‐‑–—−・•‧∙", "''-----····", "*`")
# Letters of scripts that put no spaces between words have no word boundaries to look for.
_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


def published_hit(item: UaqItem, reply: str) -> bool:
    """Whether a gold label stands in the reply, case aside."""
    return any(re.search(re.escape(answer.label), reply, re.IGNORECASE) for answer in item.answers)


def strict_hit(item: UaqItem, reply: str) -> bool:
    """Whether the reply names a right answer and, in a dilemma, not the wrong option too."""
    text = _normal(reply)
    right = {_normal(name) for answer in item.answers for name in (answer.label, *answer.aliases)}
    wrong: set[str] = set()
    if item.type is QuestionType.DILEMMA:
        wrong = {_normal(option) for option in item.options} - right
    named = _affirmed(right | wrong, text)
    return bool(named & right) and not named & wrong


def without_answers(item: UaqItem, reply: str) -> str:
    """The reply with a letter in place of its right answers, where they are spelled so."""
    for answer in item.answers:
        for name in filter(None, (answer.label, *answer.aliases)):
            if name in reply:
                reply = re.sub(_whole(name), "X", reply)
    return reply


def _affirmed(names: Set[str], text: str) -> set[str]:
    """The names that stand in the text as whole words and are not denied there.

    Within a longer one of them a name is not named.
    """
    found: set[str] = set()
    taken: list[tuple[int, int]] = []
    for name in sorted(filter(None, names), key=lambda name: (-len(name), name)):
        # Most names are not there: making a pattern of each costs far more than looking.
        for match in re.finditer(_whole(name), text) if name in text else ():
            if any(start <= match.start() and match.end() <= end for start, end in taken):
                continue
            taken.append(match.span())
            if not _denied(text, match.start(), match.end()):
                found.add(name)
    return found


def _denied(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 20) : start]
    return bool(
        _NEGATED_EN.search(before)
        or _NEGATED_ZH.search(before)
        or _DENIED_AFTER.match(text[end : end + 24])
    )


def _whole(name: str) -> str:
    """A pattern for a name that is no part of a longer word or number."""
    left = right = ""
    if _has_boundary(name[0]):
        left = rf"(?<![^\W{_UNSPACED}])" + (r"(?<!\d[.,])" if name[0].isdigit() else "")
    if _has_boundary(name[-1]):
        right = rf"(?![^\W{_UNSPACED}])" + (r"(?![.,]\d)" if name[-1].isdigit() else "")
    return left + re.escape(name) + right


def _has_boundary(letter: str) -> bool:
    return letter.isalnum() and not _IS_UNSPACED.match(letter)


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_ONE_WAY)
    return _SPACES.sub(" ", folded).strip()
