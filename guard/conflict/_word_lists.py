"""The English and Chinese words that the comparison of two answers turns on."""

from __future__ import annotations


def listed(words: str) -> list[str]:
    """The words of a text that lists them with spaces between."""
    return words.split()


NEGATORS = frozenset(
    listed(
        "not no never none neither nor without cannot cant dont doesnt didnt isnt arent wasnt "
        "werent wont wouldnt couldnt shouldnt hasnt havent hadnt nobody nothing "
        "不 没 沒 無 无 非 未 否"
    )
)
AFFIRMED = frozenset(listed("yes yeah yep true correct right 是 对 對"))
DENIED = frozenset(listed("no nope false incorrect wrong 否 不 错 錯"))
OPPOSITES = listed(
    "over/under more/less more/fewer most/least most/fewest before/after above/below "
    "increase/decrease increased/decreased increases/decreases higher/lower high/low "
    "north/south northern/southern east/west eastern/western left/right male/female "
    "man/woman king/queen mother/father son/daughter brother/sister husband/wife "
    "older/younger oldest/youngest larger/smaller largest/smallest bigger/smaller "
    "longer/shorter longest/shortest first/last always/never all/none allowed/forbidden "
    "allowed/prohibited permitted/prohibited possible/impossible legal/illegal "
    "open/closed win/lose won/lost bc/ad am/pm true/false yes/no with/without "
    "maximum/minimum early/late dead/alive buy/sell enter/leave rise/fall "
    "positive/negative required/optional can/cannot accept/reject accepted/rejected "
    "hot/cold day/night"
)
# Word → words that say the opposite.
OPPOSITES_OF: dict[str, set[str]] = {}
for _first, _second in (pair.split("/") for pair in OPPOSITES):
    OPPOSITES_OF.setdefault(_first, set()).add(_second)
    OPPOSITES_OF.setdefault(_second, set()).add(_first)
NEGATING_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non")
ANTONYM_STEM = 4

VERBS = frozenset(
    listed(
        "is are was were be been being s has have had does did do will would can could became "
        "becomes called named means 是 为 為 叫 在 于 於"
    )
)
LEAD_INS = frozenset(
    listed(
        "it its he she they this that there answer so well to be by in on at from about "
        "around approximately roughly probably likely yes no because due during since 答 案 约 約 "
        "大"
    )
)
PARTICIPLES = frozenset(
    listed(
        "built written made won held found known born sung led given shot drawn taken run put set"
    )
)
ALTERNATIVES = frozenset({"or", "either", "maybe", "perhaps", "possibly", "或"})
PRONOUNS = frozenset(listed("i you he she it they we this that there"))
FOLLOWERS = VERBS | frozenset(
    listed(
        "in on at by from for with which who that where when because since as during after "
        "before according based"
    )
)
DATE_WORDS = frozenset(listed("on in of at by around circa c about utc gmt year ad ce 年 月 日 号"))
