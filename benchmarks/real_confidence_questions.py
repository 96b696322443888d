"""The questions of `real_confidence.py`: NQ-open by the model's own replies, and easy facts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from knowgate.guard.matching import canonical_answer

FILES = ("NQ-open.dev.jsonl", "NQ-open.efficientqa.dev.1.1.jsonl")
PROMPT = "Answer in a few words.\nQuestion: {question}\nAnswer:"

CAPITALS = """France Paris; Italy Rome; Spain Madrid; Germany Berlin; Japan Tokyo; China Beijing;
Russia Moscow; Egypt Cairo; Greece Athens; Canada Ottawa; Australia Canberra; Brazil Brasilia;
Turkey Ankara; Sweden Stockholm; Norway Oslo; Finland Helsinki; Poland Warsaw; Kenya Nairobi;
Cuba Havana; Peru Lima; Nepal Kathmandu; Morocco Rabat; Ghana Accra; Mongolia Ulaanbaatar;
Paraguay Asuncion; Latvia Riga; Laos Vientiane; Zambia Lusaka; Bolivia Sucre; Chad N'Djamena"""
FACTS = {
    "How many days are there in a week?": "7",
    "How many legs does a spider have?": "8",
    "How many minutes are there in an hour?": "60",
    "How many sides does a triangle have?": "3",
    "How many continents are there?": "7",
    "Which planet is known as the Red Planet?": "Mars",
    "What is the largest planet in the solar system?": "Jupiter",
    "What is the largest ocean on Earth?": "Pacific",
    "What is the highest mountain in the world?": "Everest",
    "What is the chemical formula of water?": "H2O",
    "What is the chemical symbol for gold?": "Au",
    "What gas do plants take in from the air?": "carbon dioxide",
    "Who painted the Mona Lisa?": "Leonardo da Vinci",
    "Who wrote Romeo and Juliet?": "William Shakespeare",
    "Who wrote Pride and Prejudice?": "Jane Austen",
    "Who wrote the novel Frankenstein?": "Mary Shelley",
    "Who was the first person to walk on the moon?": "Neil Armstrong",
    "Who was the first president of the United States?": "George Washington",
    "Who discovered penicillin?": "Alexander Fleming",
    "Who developed the theory of evolution by natural selection?": "Charles Darwin",
    "In which year did World War II end?": "1945",
    "In which year did the Titanic sink?": "1912",
    "In which year did the Berlin Wall fall?": "1989",
    "What language is spoken in Brazil?": "Portuguese",
    "What is the currency of Japan?": "yen",
    "What is the fastest land animal?": "cheetah",
    "What is the largest mammal?": "blue whale",
    "Which organ pumps blood through the body?": "heart",
    "What do bees make?": "honey",
    "In which country are the pyramids of Giza?": "Egypt",
}
WORDS = {"7": "seven", "8": "eight", "60": "sixty", "3": "three"}


@dataclass(frozen=True)
class Asked:
    """One question.

    Attributes:
        question: its text.
        answers: the right answer and its aliases.
        easy: whether it is one of the easy facts.
    """

    question: str
    answers: tuple[str, ...]
    easy: bool = False


def holds(text: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers stands in the text, both in canonical form."""
    read = f" {canonical_answer(text)} "
    forms = (canonical_answer(answer) for answer in answers)
    return any(form and f" {form} " in read for form in forms)


def nq_open(folder: Path, most: int) -> list[Asked]:
    """The first `most` questions of NQ-open that do not name an answer themselves."""
    found: dict[str, Asked] = {}
    lines = [
        line for name in FILES for line in (folder / name).read_text(encoding="utf-8").splitlines()
    ]
    for line in lines[:most]:
        row = json.loads(line)
        if not holds(row["question"], row["answer"]):
            found.setdefault(row["question"], Asked(f"{row['question']}?", tuple(row["answer"])))
    return list(found.values())


def easy_facts() -> list[Asked]:
    """Capitals from well known to little known, and general knowledge."""
    capitals = (entry.split(maxsplit=1) for entry in CAPITALS.replace("\n", " ").split(";"))
    made = [
        Asked(f"What is the capital of {country}?", (city.strip(),), True)
        for country, city in capitals
    ]
    facts = FACTS.items()
    return made + [
        Asked(text, (right, *([WORDS[right]] if right in WORDS else [])), True)
        for text, right in facts
    ]


def chosen(asked: list[Asked], right: list[bool], wrong: int, seed: int = 0) -> list[Asked]:
    """All questions of NQ-open that were answered rightly, and `wrong` of the others.

    The AUROC compares right with wrong replies, so it is not changed by how many there are of
    each kind, as long as nothing but the label decides which are taken.
    """
    kept = [question for question, known in zip(asked, right, strict=True) if known]
    others = [question for question, known in zip(asked, right, strict=True) if not known]
    rows = kept + Random(seed).sample(others, min(wrong, len(others))) + easy_facts()
    Random(seed).shuffle(rows)
    return rows
