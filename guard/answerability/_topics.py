"""What a question and a statement are about, where they use different words for it."""

from __future__ import annotations

from ._phrases import words_of

_FAMILIES = {
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
for _family, _listed in _FAMILIES.items():
    for _word in _listed.split():
        _ABOUT.setdefault(_word, set()).add(_family)


def without_topics(text: str, families: frozenset[str]) -> str:
    """A folded Chinese text without the words of some fields of life."""
    for word in sorted(_ABOUT, key=len, reverse=True):
        if not word.isascii() and _ABOUT[word] & families:
            text = text.replace(word, " ")
    return text


def topics(text: str) -> frozenset[str]:
    """The fields of life that the words of a folded text belong to."""
    lower = text.casefold()
    words = set(words_of(lower))
    return frozenset(
        family
        for word, families in _ABOUT.items()
        if (word in words if word.isascii() else word in lower)
        for family in families
    )
