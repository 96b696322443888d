"""What is known of the judges of a run: `judge_bias.json` in its folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from ...guard import InputError
from ...guard.files import write_json
from ..runs import read_versioned
from ._artefact import BIAS_SCHEMA_VERSION, JudgeBias, checked_bias, judge_bias_warning

RUN_BIAS_FILE = "judge_bias.json"
_KIND = "judge_biases"
_MEND = "remove it, and give `knowgate judge` the measurements again with --bias"


def keep_judge_biases(folder: str | os.PathLike[str], biases: Sequence[JudgeBias]) -> None:
    """Store measurements with a run, beside those of its other judges.

    Raises:
        InputError: what is there already is broken, or the file cannot be written.
    """
    known = judge_biases_of(folder) | {bias.judge: bias for bias in biases}
    write_json(
        Path(folder) / RUN_BIAS_FILE,
        {
            "schema_version": BIAS_SCHEMA_VERSION,
            "kind": _KIND,
            "judges": [bias.model_dump(mode="json") for _, bias in sorted(known.items())],
        },
    )


def judge_biases_of(folder: str | os.PathLike[str]) -> dict[str, JudgeBias]:
    """The measurements stored with a run, by judge; none where nothing was stored.

    Raises:
        InputError: the file is broken or written by a newer knowgate.
    """
    path = Path(folder) / RUN_BIAS_FILE
    if not path.exists():
        return {}
    value = read_versioned(path, mend=_MEND)
    judges = value.get("judges")
    if value.get("kind") != _KIND or not isinstance(judges, list):
        raise InputError("holds no measurements of judges", where=str(path), mend=_MEND)
    found = [checked_bias(one, str(path), _MEND) for one in judges]
    return {bias.judge: bias for bias in found}


def bias_warnings(
    folder: str | os.PathLike[str], judges: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """What to know of these judges before trusting them, by name; often nothing.

    Raises:
        InputError: as `judge_biases_of`.
    """
    said = {name: judge_bias_warning(bias) for name, bias in judge_biases_of(folder).items()}
    return {name: (text,) for name, text in said.items() if text is not None and name in judges}
