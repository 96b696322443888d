"""Small graphs for tests, as N-Triples."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

from knowgate.offline_eval.data.graph.generation import GeneratedSet
from knowgate.offline_eval.data.graph.items import QuestionType

WD = "http://www.wikidata.org/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
WIKIBASE = "http://wikiba.se/ontology#"
ALIAS = "<http://www.w3.org/2004/02/skos/core#altLabel>"
_FIRST = ("Ada", "Bela", "Cleo", "Dora", "Egon", "Fay", "Gus", "Hana")
_LAST = ("Moor", "Nash", "Orth", "Pell", "Quist")
_PLACES = [f"{first}burg" for first in ("Al", "Bo", "Cu", "De", "Em", "Fi")]
_PLACES += [f"{first}stad" for first in ("Gra", "Hil", "Iss", "Jul", "Kro", "Lun")]
_ZH = {"Q5": "人物", "Q515": "地方", "Q4164871": "职位", "Q11424": "影片"}
_KEPT = ("gate", "lamp", "mill", "oath", "pond", "road", "seal", "tide", "vine", "wall")
_COLOURS = ("Amber", "Blue", "Crimson", "Dim", "Elm", "Frozen")
_SYLLABLES = ("ba", "dor", "el", "ko", "lu", "mo", "ni", "qu", "ri", "sa", "ten", "vi")
_P = "http://example.org/people/"
_THINGS = ("Hour", "Isle", "Jewel", "Knot", "Lake")
PROPERTIES = {
    "P19": ("place of birth", "出生地", "lieu de naissance"),
    "P39": ("position held", "担任职务", "fonction"),
    "P57": ("director", "导演", "réalisateur"),
    "P161": ("cast member", "演员", "distribution"),
    "P569": ("date of birth", "出生日期", "date de naissance"),
    "P1082": ("population", "人口", "population totale"),
    "P2002": ("username", "用户名", "identifiant"),
}


def entity(name: str) -> str:
    """The IRI of an item or property, in angle brackets."""
    return f"<{WD}entity/{name}>"


class WikidataLike:
    """40 people, 12 places, 10 positions and 30 films, stated as Wikidata states things."""

    def __init__(self, seed: int = 0) -> None:
        self.lines: list[str] = []
        self._draw = random.Random(seed)
        self._statements = 0
        people = [f"Q{100 + at}" for at in range(40)]
        places = [f"Q{200 + at}" for at in range(12)]
        posts = [f"Q{300 + at}" for at in range(10)]
        films = [f"Q{400 + at}" for at in range(30)]
        names = [f"{first} {last}" for first, last in product(_FIRST, _LAST)]
        for items, kind, texts in (
            (people, "Q5", names),
            (places, "Q515", _PLACES),
            (posts, "Q4164871", [f"{first} keeper" for first in _KEPT]),
            (films, "Q11424", [f"The {a} {b}" for a, b in product(_COLOURS, _THINGS)]),
        ):
            for at, item in enumerate(items):
                self.add(entity(item), f"<{WD}prop/direct/P31>", entity(kind))
                self.label(item, texts[at], f"{_ZH[kind]}{at:03d}号", f"{texts[at]} (fr)")
        for prop, labels in PROPERTIES.items():
            self.label(prop, *labels)
        self.add(entity("P2002"), f"<{WIKIBASE}propertyType>", f"<{WIKIBASE}ExternalId>")
        for at, person in enumerate(people):
            self.fact(person, "P19", entity(self._draw.choice(places)))
            year = self._draw.randint(1700, 1900)
            self.fact(person, "P569", f'"{year}-03-01T00:00:00Z"^^<{XSD}dateTime>')
            self.add(entity(person), f"<{WD}prop/direct/P2002>", f'"user{at}"')
            self.career(person, posts, year + 20)
        for film in films:
            self.fact(film, "P57", entity(self._draw.choice(people)))
            for person in self._draw.sample(people, self._draw.randint(1, 3)):
                self.fact(film, "P161", entity(person))
        for place in places:
            self.fact(place, "P1082", f'"+{self._draw.randint(1000, 90000)}"^^<{XSD}decimal>')

    def text(self) -> str:
        """N-Triples."""
        return "".join(self.lines)

    def add(self, subject: str, predicate: str, obj: str) -> None:
        """One triple, as written."""
        self.lines.append(f"{subject} {predicate} {obj} .\n")

    def label(self, item: str, en: str, zh: str, fr: str) -> None:
        """A label in three languages."""
        for tag, text in (("en", en), ("zh-hans", zh), ("fr", fr)):
            self.add(entity(item), f"<{RDFS}label>", f'"{text}"@{tag}')

    def fact(
        self,
        item: str,
        prop: str,
        value: str | None,
        start: int | None = None,
        end: int | None = None,
        rank: str = "NormalRank",
    ) -> None:
        """A statement, with the triple that Wikidata derives from it."""
        self._statements += 1
        node = f"<{WD}entity/statement/{item}-{self._statements}>"
        self.add(entity(item), f"<{WD}prop/{prop}>", node)
        self.add(node, f"<{WIKIBASE}rank>", f"<{WIKIBASE}{rank}>")
        if value is not None:
            self.add(node, f"<{WD}prop/statement/{prop}>", value)
            if rank != "DeprecatedRank":
                self.add(entity(item), f"<{WD}prop/direct/{prop}>", value)
        for qualifier, year in (("P580", start), ("P582", end)):
            if year is not None:
                moment = f'"{year}-01-01T00:00:00Z"^^<{XSD}dateTime>'
                self.add(node, f"<{WD}prop/qualifier/{qualifier}>", moment)

    def career(self, person: str, posts: list[str], year: int) -> None:
        """One to three posts, one after the other, with a gap or without; the last may go on."""
        for post in self._draw.sample(posts, self._draw.randint(1, 3)):
            end = year + self._draw.randint(2, 9)
            goes_on = self._draw.random() < 0.1
            self.fact(person, "P39", entity(post), year, None if goes_on else end)
            if goes_on:
                return
            year = end + self._draw.choice((0, 1, 4))


def skewed_people(number: int = 600, seed: int = 0) -> str:
    """People, a few countries of whom many are citizens, and offices held for 1 to 40 years."""
    draw = random.Random(seed)
    lines = [
        f'<{_P}{prop}> <{RDFS}label> "{prop}"@en .'
        for prop in ("citizenship", "residence", "office")
    ]
    for kind, many in (("Country", 40), ("Office", 40), ("Person", number)):
        for at in range(many):
            name = "".join(draw.sample(_SYLLABLES, 4)).title() + "xyz"[at % 3]
            lines.append(f'<{_P}{kind}{at}> <{RDFS}label> "{name}"@en .')
            lines.append(f"<{_P}{kind}{at}> <{RDF}type> <{_P}{kind}> .")
    shares = [1 / (at + 1) ** 1.2 for at in range(40)]
    for at in range(number):
        person = f"<{_P}Person{at}>"
        for prop in ("citizenship", "residence"):
            (country,) = draw.choices(range(40), shares)
            lines.append(f"{person} <{_P}{prop}> <{_P}Country{country}> .")
        year = draw.randint(1500, 1900)
        for held in range(2):
            (office,) = draw.choices(range(40), shares)
            node = f"<{_P}held{at}-{held}>"
            end = year + draw.randint(1, 40)
            lines += [
                f"{node} <{RDF}subject> {person} .",
                f"{node} <{RDF}predicate> <{_P}office> .",
                f"{node} <{RDF}object> <{_P}Office{office}> .",
                f'{node} <{_P}start> "{year}"^^<{XSD}gYear> .',
                f'{node} <{_P}end> "{end}"^^<{XSD}gYear> .',
            ]
            year = end
    return "\n".join(lines) + "\n"


def only(made: GeneratedSet, kind: QuestionType) -> GeneratedSet:
    """The questions of one type."""
    items, choices = (
        tuple(one for one in part if one.type is kind)
        for part in (made.data.items, made.data.choices)
    )
    data = replace(made.data, items=items, choices=choices)  # type: ignore[arg-type]
    return replace(made, data=data)
