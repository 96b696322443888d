"""Commands of knowgate, run inside this process."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from knowgate.offline_eval.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: exit code; None where an exception came through.
        err: standard error.
    """

    code: int | None
    err: str

    @property
    def orderly(self) -> bool:
        """Whether it did its work, certified nothing, failed rows, or said what is wrong."""
        if self.code in (0, 3):
            return "Traceback" not in self.err
        if self.code == 1:
            # A text that another may stand for is no damage: such rows fail and are counted.
            return "rows failed: see `error`" in self.err
        lines = self.err.strip().split("\n")
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


def knowgate(*arguments: str | Path) -> Ended:
    """Run `knowgate ARGUMENTS`."""
    before, out, err = sys.argv, io.StringIO(), io.StringIO()
    sys.argv = ["knowgate", *map(str, arguments)]
    code: int | None = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except Exception:  # noqa: BLE001 - what no command may let through
        err.write("\n" + traceback.format_exc())
    finally:
        sys.argv = before
    return Ended(code, err.getvalue())
