"""Run all attacks on knowgate and print what got through.

Exit code 1 if more got through than is accepted, or an attack could not be made.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

from .outcome import Attack, Outcome

# Modules of this package; each has `attacks(folder, full)`.
MODULES = (
    "echo",
    "mentions",
    "certificates",
    "policies",
    "alarms",
    "model_folders",
    "damaged_models",
    "exits",
    "batches",
    "inputs",
    "judged_texts",
    "run_files",
    "changed_rows",
    "links",
    "concurrency",
    "kills",
    "interrupted",
    "writers",
    "endpoints",
    "pages",
    "browser",
    "served",
    "streams",
)


def attack_of(name: str) -> Attack:
    """The attack that a module of this package makes."""
    found: Attack = import_module(f"{__package__}.{name}").attacks
    return found


def run(names: list[str], *, full: bool) -> bool:
    """Run modules one after the other, print a table; True if everything held."""
    held = True
    print(f"{'attack':<72} {'tried':>7} {'through':>7} {'wanted':>6}", flush=True)
    for name in names:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                for outcome in attack_of(name)(Path(folder), full):
                    held = held and outcome.held
                    _print(outcome)
            except Exception:  # noqa: BLE001 - the other attacks are made all the same
                held = False
                print(f"{name}: could not be made\n{traceback.format_exc()}")
        print(f"  {name}: {time.perf_counter() - started:.0f} s", flush=True)
    print("everything held" if held else "SOMETHING GOT THROUGH")
    return held


def _print(outcome: Outcome) -> None:
    numbers = f"{outcome.tried:>7} {outcome.through:>7} {outcome.wanted:>6}"
    print(f"{outcome.attack:<72} {numbers}{'' if outcome.held else '  <<<'}", flush=True)
    if not outcome.held and outcome.cases:
        print(f"    {', '.join(outcome.cases[:12])}")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=MODULES, help="a module; all by default")
    parser.add_argument("--quick", action="store_true", help="the cheap selection that tests run")
    given = parser.parse_args()
    sys.exit(0 if run(given.only or list(MODULES), full=not given.quick) else 1)


if __name__ == "__main__":
    main()
