"""Measured cases of a run, whichever suite made it."""

from __future__ import annotations

import os
from pathlib import Path

from ...guard import InputError
from ..runs import read_manifest
from ._from_ookb import records_from_ookb
from ._from_uniknow import records_from_uniknow
from ._measured import MeasuredCases

_SUITES = {"ookb": records_from_ookb, "uniknow": records_from_uniknow}


def records_from_run(run: str | os.PathLike[str]) -> MeasuredCases:
    """The cases of a finished run folder, by the suite that its manifest names.

    Raises:
        InputError: no such run, a suite that measures nothing to calibrate on, or a run
            that its suite's reader refuses.
    """
    suite = str(read_manifest(run).get("suite"))
    if suite not in _SUITES:
        raise InputError(
            f"a run of suite {suite!r} holds nothing to calibrate on",
            where=str(Path(run) / "manifest.json"),
            mend=f"name a run of: {', '.join(_SUITES)}; or write a records file (--records)",
        )
    return _SUITES[suite](run)
