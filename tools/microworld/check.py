"""Measure what the bundled language model, or another folder, does in every scenario.

    python tools/microworld/check.py [--model DIR] [--questions N] [--json]

Some 6,000 questions are asked, about two minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from knowgate.offline_eval.testbed.check import check_microworld

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--questions", type=int, help="most facts per row; all by default")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = check_microworld(model_path=given.model, questions=given.questions)
    if given.json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        print(*("\t".join(map(str, row)) for row in found.rows()), sep="\n")
