"""Whether the rest of the knowledge base really lacks the answer of a left-out question."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, FiniteFloat

from ....guard.errors import DeviceError, MissingDependencyError, ModelFolderError
from ....guard.files import write_text
from ....guard.read_models import read_models
from ...data.diversity.uniqueness import numbers_of, words_of
from ...data.questions import KnowledgeBase, QuestionRecord
from ...systems.retrieval import PassageIndex
from ._cases import AskedBase

LEFT_OUT_FILE = "left_out_check.jsonl"

# Shorter answers stand in a text by chance; it must be about the question besides.
_SHORT_WORDS = 4
_ABOUT = 0.4
# Passages compared with each, and the least cosine of one that states the same.
_NEIGHBOURS, _SAME_FACT = 10, 0.85


class AnswerElsewhere(BaseModel):
    """A passage that probably answers a question although the question's own is left out.

    Attributes:
        question_id: of the left-out question.
        passage_id: of the other passage.
        similarity: cosine of the question's own passage with the other one, in [-1, 1]; None
            where it was not measured.
        how: `contains_answer`, the whole answer stands there; `same_fact`, much the same
            is said with the same numbers.
    """

    model_config = ConfigDict(frozen=True)

    question_id: str
    passage_id: str
    similarity: FiniteFloat | None = None
    how: str = ""


def left_out_check(
    questions: Sequence[QuestionRecord],
    knowledge_base: KnowledgeBase,
    index: PassageIndex,
) -> list[AnswerElsewhere]:
    """Passages that probably hold an answer besides the question's own passage.

    A left-out case whose answer stands elsewhere is none: a system that answers it is
    right. Reported is a passage that contains the whole answer word for word (an answer of
    fewer than four words only in a passage that is about the question: their cosine is at
    least 0.4), and one of the nearest passages whose cosine with the question's own is at
    least 0.85 and that has all numbers of the answer. It finds restatements, not
    what follows from several passages together; and it also reports facts that are the
    same but for a name, since an embedding hardly tells them apart.

    Args:
        questions: of the knowledge base.
        knowledge_base: that they are asked against.
        index: its embedded passages.

    Returns:
        In the order of the questions; per question `contains_answer` first, then by falling
        similarity. A passage stands there once per question. Memory grows with the
        passages, not with their pairs.
    """
    near = index.neighbours(_NEIGHBOURS)
    texts = knowledge_base.passages
    words = {name: words_of(text) for name, text in texts.items()}
    numbers = {name: numbers_of(text) for name, text in texts.items()}
    plain = {name: f" {' '.join(found)} " for name, found in words.items()}
    holders: dict[str, list[str]] = defaultdict(list)
    for name, of_passage in words.items():
        for word in dict.fromkeys(of_passage):
            holders[word].append(name)
    found: list[AnswerElsewhere] = []
    for record in questions:
        own, answer = knowledge_base.passage_of[record.question_id], words_of(record.answer)
        # Passages in which the whole answer stands have its rarest word.
        rarest = min((holders.get(word, []) for word in answer), key=len, default=[])
        wanted = f" {' '.join(answer)} "
        holding = [name for name in rarest if name != own and wanted in plain[name]]
        if holding and len(answer) < _SHORT_WORDS:
            vector = index.encoder.embed([record.question])[0]
            holding = [one for one in holding if float(vector @ index.vector(one)) >= _ABOUT]
        said = [("contains_answer", index.cosine(own, name), name) for name in holding]
        close = [one for one in near[own] if one[1] >= _SAME_FACT and one[0] not in holding]
        asked = numbers_of(record.answer)
        said += [("same_fact", cosine, name) for name, cosine in close if asked <= numbers[name]]
        for how, cosine, name in sorted(said, key=lambda one: (one[0], -one[1])):
            row = {"question_id": record.question_id, "passage_id": name, "how": how}
            found.append(AnswerElsewhere(**row, similarity=cosine))
    return found


def note_left_out_check(
    folder: Path,
    bases: Sequence[AskedBase],
    left_out: Collection[str],
    index: Callable[[str], PassageIndex],
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, where nothing was taken out of a
    known knowledge base, or where the encoder is not there: the run can do without.

    Args:
        folder: of the run.
        bases: that were asked about.
        left_out: ids of the questions whose passage was taken out.
        index: makes the embedded passages of a base, by its name.
    """
    path = folder / LEFT_OUT_FILE
    asked = {
        base.name: [record for record in base.asked if record.question_id in left_out]
        for base in bases
    }
    if path.exists() or not any(asked.values()):
        return
    found: list[AnswerElsewhere] = []
    try:
        for base in bases:
            if asked[base.name]:
                found += left_out_check(asked[base.name], base.knowledge_base, index(base.name))
    except (DeviceError, MissingDependencyError, ModelFolderError):
        return
    lines = (json.dumps(row.model_dump(), ensure_ascii=False) + "\n" for row in found)
    write_text(path, "".join(lines))


def read_left_out_check(folder: Path) -> tuple[AnswerElsewhere, ...] | None:
    """Read what the check found, in the order of the file; None where it was not made.

    Raises:
        InputError: a line of the file is broken; names file and line.
    """
    path = folder / LEFT_OUT_FILE
    if not path.exists():
        return None
    hint = "remove the file, or make the check again"
    return tuple(one for _, one in read_models(path, AnswerElsewhere, hint=hint, links=False))
