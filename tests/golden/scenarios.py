"""The scenarios: command lines as one types them, and the artefacts that are kept."""

from __future__ import annotations

from tests.golden import snippets
from tests.golden.golden import NETWORK, Scenario, Step

_CHAT = "python:golden_models:chat"
_CHAIN = "python:golden_models:chain"
_BASIC = "in/gpt_runs/few_BASIC_RAG_basic.jsonl"
_CONSERVATIVE = "in/gpt_runs/few_BASIC_RAG_conservative.jsonl"
_LM_EVAL = "in/lm_eval/some__model/samples_colours_2025-01-01T00-00-00.jsonl"
_SIGNALS = "measure --questions in/questions.jsonl"
_REPLAY = f"eval ookb --questions in/few.jsonl --replay {_BASIC} --replay {_CONSERVATIVE}"
_REPORT = ("*/report.json", "*/report.md", "*/report.html")
COMMANDS = (
    "",
    "apply",
    "calibrate",
    "dashboards",
    "demo",
    "doctor",
    "drift",
    "eval",
    "eval conflict",
    "eval judge-bias",
    "eval ookb",
    "eval uaqfact",
    "eval uniknow",
    "import",
    "index",
    "judge",
    "kb",
    "kb build",
    "kg",
    "kg generate",
    "label",
    "measure",
    "models",
    "play",
    "report",
    "serve",
    "shadow-report",
    "tune",
    "view",
)


def _steps(*lines: str) -> list[Step]:
    return [Step(line) for line in lines]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "help", [Step(f"{name} --help".strip(), options=True) for name in COMMANDS], slow=True
    ),
    Scenario(
        "refusals",
        _steps(
            "",
            "nonsense",
            "eval",
            "measure --out run",
            "measure --questions in/missing.jsonl --out run",
            "eval ookb --questions in/few.jsonl --guard off --out run",
            f"eval ookb --questions in/few.jsonl --model {_CHAT} --prompt polite --out run",
            "eval uniknow --data nowhere.jsonl --out run",
            "eval conflict --tasks XY --out run",
            "eval uaqfact --data nowhere --dry-run",
            "calibrate --out policy.json",
            "calibrate --records in/records.jsonl --promise leak --out policy.json",
            "calibrate --records in/signals.jsonl --out policy.json",
            "calibrate --records in/records.jsonl --risk 2 --out policy.json",
            "apply --input in/said.jsonl --output x.jsonl --scorer lexical",
            "apply --input in/pairs.jsonl --output x.jsonl --scorer magic",
            "apply --policy in/few.jsonl --input in/signals.jsonl --output x.jsonl",
            "apply --input in/pairs.jsonl --output x.jsonl --abstention default",
            "report nowhere",
            "judge nowhere",
            "label nowhere --agreement",
            "import knowornot in/few.jsonl --out run",
            "import lm-eval nowhere.jsonl --out run",
            "kb build nowhere --out kb",
            "kg generate nowhere.nt --out set",
            "tune relevance --questions in/few.jsonl --out tuned",
            "tune scenarios --method dpo --out in",
        ),
        keep=("*.json", "*.jsonl", "run/*"),
        slow=True,
    ),
    Scenario("guard", [Step(call=snippets.guards)], slow=True, tolerance=NETWORK),
    Scenario(
        "guard-parts",
        [
            Step(call=snippets.conflicts),
            Step(call=snippets.confidences),
            Step(call=snippets.guarded_rag),
        ],
        tolerance=NETWORK,
    ),
    Scenario(
        "abstained",
        _steps(
            "apply --input in/said.jsonl --output default.jsonl",
            "apply --input in/said.jsonl --output uaqfact.jsonl --abstention uaqfact",
            "apply --input in/said.jsonl --output uniknow.jsonl --abstention uniknow",
        ),
        keep=("*.jsonl",),
    ),
    Scenario(
        "score",
        _steps(
            *(
                f"apply --input in/pairs.jsonl --output {name}.jsonl --scorer {name}"
                for name in ("sufficiency", "lexical")
            ),
            "apply --input in/pairs.jsonl --output other.jsonl --scorer lexical --aggregator "
            "noisy_or",
        ),
        keep=("*.jsonl",),
        tolerance=NETWORK,
    ),
    Scenario(
        "ookb-signals",
        _steps(
            f"{_SIGNALS} --out run",
            "calibrate --run run --risk 0.25 --delta 0.2 --out policy.json",
            "calibrate --run run --risk 0.01 --out none.json",
            "calibrate --like policy.json --run run --out again.json",
            "calibrate --run run --risk 0.3 --delta 0.2 --answer-from-memory 0.7 --out memory.json",
            "calibrate --run run --promise selective --risk 0.4 --delta 0.3 --out selective.json",
            "apply --input in/pairs.jsonl --output scores.jsonl --policy policy.json",
            "report run --out report --format html,md,json,junit --fail-if 'auroc<0.5'",
            "report run --out failing --format junit --fail-if 'auroc<1.1'",
            "measure --questions in/few.jsonl --passage question_answer --scorer bi_encoder "
            "--aggregator top3_mean --top-k 4 --out other",
        ),
        keep=(
            "other/*.json*",
            "*.json",
            "*.jsonl",
            "run/*.json",
            "run/cases.jsonl",
            "report/*",
            "failing/*",
        ),
        slow=True,
        tolerance=NETWORK,
    ),
    Scenario(
        "calibrate-records",
        _steps(
            "calibrate --records in/records.jsonl --risk 0.2 --out a.json --report page-a.html",
            "calibrate --records in/records.jsonl --risk 0.25 --per-route --out b.json",
            "calibrate --records in/records.jsonl --coverage 0.5 --out c.json",
            "calibrate --records in/records.jsonl --risk 0.3 --out d.json "
            "--cost wrong_answer=1,false_abstention=0.2,wrong_follow=1",
            "calibrate --records in/records.jsonl --risk 0.01 --out e.json",
            "calibrate --like a.json --records in/records_newer.jsonl --out f.json "
            "--report page-f.html",
            "calibrate --like a.json --records in/records.jsonl --out a.json",
            "apply --policy a.json --input in/signals.jsonl --output decisions.jsonl",
            "drift --policy a.json --input decisions.jsonl "
            "--feedback in/feedback.jsonl --json > drift.json",
            "drift --policy a.json --input decisions.jsonl --fail-on-drift "
            "--risk 0.01 --feedback in/feedback.jsonl",
        ),
        keep=("[a-f].json", "page-a.json", "drift.json", "*.jsonl", "*.html"),
        slow=True,
    ),
    Scenario(
        "ookb-models",
        _steps(
            "measure --questions in/questions.jsonl --scorer lexical --out signals",
            "calibrate --run signals --risk 0.4 --delta 0.3 --share 0.5 --write-anyway "
            "--out policy.json",
            f"eval ookb --questions in/few.jsonl --model embedded --model {_CHAT} --prompt basic "
            "--prompt conservative --retrieval basic_rag --retrieval direct --guard off "
            "--guard policy.json --limit 2 --calls concurrency=1 --out run",
            f"eval ookb --questions in/few.jsonl --model {_CHAT} --model {_CHAIN} "
            "--retrieval hyde --retrieval long_context --cases left_out,in_kb,synthetic "
            "--judge none --limit 3 --calls concurrency=1 --top-k 2 --out other",
            "report run --format html,md,json,csv,junit --fail-if 'abstention_rate<0.1'",
            "report other --format json",
            f"eval ookb --questions in/few.jsonl --replay {_BASIC} --guard off "
            "--guard policy.json --judge detector --out replayed",
            "report replayed --format json",
        ),
        keep=(
            "policy.json",
            "run/*.json*",
            "run/report.md",
            "run/*.xml",
            "other/*.json*",
            "replayed/*.json*",
        ),
        without=("judge_sha256",),
        slow=True,
        tolerance=NETWORK,
    ),
    Scenario(
        "ookb-dry-runs",
        [
            Step(line, numbers=True)
            for line in (
                f"eval ookb --questions in/few.jsonl --model {_CHAT} --retrieval direct "
                "--retrieval hyde --prompt basic --prompt opinion --dry-run --out run",
                "kb build in/docs --dry-run --out kb",
                f"kb build in/docs --model {_CHAT} --dry-run --out kb",
                "kg generate microworld --dry-run",
                "kg generate microworld --dry-run --json > properties.json",
                "eval conflict --dry-run",
            )
        ],
        keep=("*.json", "run/*", "kb/*"),
    ),
    Scenario(
        "replies",
        [
            *_steps(
                f"{_REPLAY} --out run",
                "eval ookb --questions in/few.jsonl "
                "--replay in/old/gpt_runs/few_BASIC_RAG_basic.jsonl --out old",
                f"judge run --judge llm:{_CHAT} --calls concurrency=1",
            ),
            Step(f"judge run --judge llm:{_CHAT} --judge detector --dry-run", numbers=True),
            Step("label run --agreement"),
            Step(call=snippets.label),
            Step("label run --agreement", numbers=True),
            *_steps(
                "label run --export labels.csv",
                "label run --export labels.jsonl",
                "label old --consensus carol",
                "report run --format html,md,json,csv,junit --compare old",
                "report run --out passing --format json,junit --fail-if 'abstention_rate<0.1'",
                "report run --out failing --format json,junit --fail-if 'abstention_rate<0.9' "
                "--fail-if 'tier_3>100'",
                "report run --out unknown --fail-if 'nonsense<0.9'",
            ),
        ],
        keep=(
            "labels.*",
            "run/*",
            "run/labels/*.json*",
            "passing/junit.xml",
            "failing/junit.xml",
            "unknown/*",
        ),
        slow=True,
    ),
    Scenario(
        "interop",
        _steps(
            "import knowornot in/knowornot/input.json in/knowornot/output.json "
            "in/knowornot/evaluated.json --out run",
            "report run --format json,csv",
            f"import lm-eval {_LM_EVAL} --out lm",
            "report lm --format json,csv",
        ),
        keep=("run/*", "lm/*"),
    ),
    Scenario(
        "kb",
        [Step("kb build in/docs --out kb"), Step(call=snippets.diverse)],
        keep=("*.jsonl", "kb/*"),
        tolerance=NETWORK,
    ),
    Scenario(
        "uniknow",
        _steps(
            "eval uniknow --methods naive,cad,coiecd,guard_naive --limit 20 --scorer lexical "
            "--set risk=0.6,delta=0.5,questions-per-side=3 --out run",
            "report run --format html,md,json",
        ),
        keep=("run/*",),
        without=("passages",),
        slow=True,
        within=snippets.fewer_documents,
        tolerance=NETWORK,
    ),
    Scenario(
        "uaqfact",
        _steps(
            "kg generate microworld --per-type 3 --examples 4 --out set",
            "eval uaqfact --data set --dry-run --json > counts.json",
            "eval uaqfact --data set --guard premise --forms clue,facts --limit 2 --out run",
            "report run",
            "eval uaqfact --data set --model replay --replies in/uaqfact_log.jsonl --tasks 1,2 "
            "--limit 2 --out replayed",
            "report replayed --format json",
        ),
        keep=("replayed/*.json*", "counts.json", "set/**/*", "run/*"),
        slow=True,
        tolerance=NETWORK,
    ),
    Scenario(
        "conflict",
        _steps(
            "eval conflict --limit 3 --out run",
            "report run",
            "eval conflict --data in/conflict.jsonl --model replay --replies in/conflict_log.jsonl "
            "--tasks CK --evidence NC,HPC --out replayed",
            "report replayed --format json",
            "measure --questions in/questions.jsonl --scorer lexical --out signals",
            "calibrate --run signals --risk 0.4 --delta 0.3 --share 0.5 --write-anyway "
            "--out policy.json",
            "eval conflict --data in/conflict.jsonl --tasks PK,RAG "
            "--guard policy.json --out guarded",
            "report guarded --format json",
            "eval judge-bias --judge llm:embedded --data in/conflict.jsonl --beliefs given "
            "--out bias.json",
        ),
        keep=("bias.json", "run/*", "replayed/*", "guarded/*"),
        slow=True,
        tolerance=NETWORK,
    ),
    Scenario(
        "microworld",
        [Step(call=snippets.check_world), *_steps("--version", "doctor --json")],
        keep=("check.json",),
        slow=True,
    ),
)
