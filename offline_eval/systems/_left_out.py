"""Whether what was taken out of a knowledge base is really gone, noted in the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from ...guard import DeviceError, MissingDependencyError, ModelFolderError
from ...guard.files import write_text
from ..retrieval import AnswerElsewhere, PassageIndex, left_out_check
from ._bases import AskedBase

LEFT_OUT_FILE = "left_out_check.jsonl"


def note_left_out_check(
    folder: Path,
    bases: Sequence[AskedBase],
    left_out: Collection[str],
    index: Callable[[AskedBase], PassageIndex],
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, where nothing was taken out of a
    known knowledge base, or where the encoder is not there: the run can do without.

    Args:
        folder: of the run.
        bases: that were asked about.
        left_out: ids of the questions whose passage was taken out.
        index: embedded passages of a base.
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
                embedded = index(base)
                found += left_out_check(
                    asked[base.name], base.knowledge_base, embedded.encoder, index=embedded
                )
    except (DeviceError, MissingDependencyError, ModelFolderError):
        return
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in found)
    write_text(path, "".join(lines))
