"""Other processors, as far as environment variables choose among a processor's instructions.

    python -m tests.support.processors calibrate FOLDER    fit a policy; decide by it
    python -m tests.support.processors serve FOLDER        decide by the policy in the folder

Both ask the same 300 cases of the sample knowledge base and write what was decided.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Instructions of twenty years ago; `make test-old-processor` sets them too.
OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OMP_NUM_THREADS": "1",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}
NEWER = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "OMP_NUM_THREADS": "2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
QUESTIONS, SETS = 30, 10
POLICY, DECIDED = "policy.json", "{}.json"


def main(action: str, folder: Path) -> None:
    """Fit a policy or load it; write the scorer's fingerprint and what is decided."""
    from knowgate.calibration import CalibrationRecord
    from knowgate.calibration.risk import Leak, fit_policy
    from knowgate.calibration.risk.fit import PolicyBinding
    from knowgate.guard import Guard, GuardOptions, Policy
    from knowgate.guard.signals.relevance import load_scorer
    from knowgate.offline_eval.testbed import sample_knowledge_base_path

    lines = sample_knowledge_base_path().read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:QUESTIONS]]
    # Every question meets every set: encoding texts takes most of the time.
    texts = sorted({row["passage"] for row in rows})
    sets = [[texts[n % len(texts)], texts[(n + 1) % len(texts)]] for n in range(SETS)]
    cases = [(row, found) for row in rows for found in sets]
    scorer = load_scorer("sufficiency")
    options = GuardOptions(deadlines={"relevance": None})

    def decided(policy: Policy) -> list[tuple[str, float | None, float | None]]:
        guard = Guard(policy, scorer=scorer, metrics=False, options=options)
        found = guard.decide_batch([row["question"] for row, _ in cases], [s for _, s in cases])
        return [(one.route.value, one.relevance, one.raw_relevance) for one in found]

    path = folder / POLICY
    if action == "calibrate":
        plain = Policy.for_scorer(scorer, threshold=0.5)
        # Of each question a set that holds its passage, where there is one, and one that does not.
        records = {}
        for (row, given), (_, _, raw) in zip(cases, decided(plain), strict=True):
            holds = row["passage"] in given
            records[row["id"], holds] = CalibrationRecord(
                question_id=row["id"],
                relevance=raw,
                confidence=None,
                context_right=holds,
                closed_book_right=None,
                case="in_kb" if holds else "left_out",
            )
        binding = PolicyBinding(scorer=scorer.fingerprint, aggregator=plain.aggregator)
        fitted = fit_policy(list(records.values()), Leak(0.1), delta=0.1, binding=binding)
        fitted.policy.save(path)
    policy = Policy.load(path)
    found = {
        "scorer": scorer.fingerprint.model_dump(mode="json"),
        "threshold": policy.relevance_threshold,
        "decisions": decided(policy),
    }
    (folder / DECIDED.format(action)).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
