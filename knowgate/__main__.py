"""`python -m knowgate` and the console script."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from knowgate.offline_eval.cli import main as run

    run()


if __name__ == "__main__":
    main()
