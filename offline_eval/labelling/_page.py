"""The labelling page: one document with its style and script, and no reply in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ._criteria import LabelCriterion
from ._item_view import plain

_TEMPLATES = Path(__file__).parent / "templates"


def render_page(
    *, annotator: str, criteria: Sequence[LabelCriterion], settles: bool, nonce: str
) -> str:
    """The page that asks the server for one reply after the other.

    Args:
        annotator: who labels.
        criteria: what is asked.
        settles: the page settles disagreements.
        nonce: of this response, for style and script.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = {"criteria": [_asked(criterion) for criterion in criteria], "settles": settles}
    return environment.get_template("label.html").render(
        annotator=annotator, settles=settles, nonce=nonce, settings=json.dumps(settings)
    )


def _asked(criterion: LabelCriterion) -> dict[str, Any]:
    meanings = criterion.meanings or ("",) * len(criterion.outcomes)
    yes_no = set(criterion.outcomes) == {"yes", "no"}
    return {
        "name": criterion.name,
        "question": plain(criterion.question) or f"{plain(criterion.name)}: which one?",
        "outcomes": [
            {
                "outcome": outcome,
                "text": plain(outcome),
                "meaning": plain(meaning),
                "key": outcome[0] if yes_no else str(number),
                "number": str(number),
            }
            for number, (outcome, meaning) in enumerate(
                zip(criterion.outcomes, meanings, strict=True), start=1
            )
        ],
    }
