"""`python -m knowgate` and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from knowgate.guard.errors import MissingDependencyError

    try:
        from .offline_eval.cli import main as run
    except MissingDependencyError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
