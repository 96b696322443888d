"""Judging runs in which guards speak for themselves, and keeping contexts short."""

from __future__ import annotations

from pathlib import Path

from knowgate.guard import Route
from knowgate.offline_eval.judging.contract import FunctionJudge
from knowgate.offline_eval.judging.judges import DetectorJudge
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.replies import Judgement, ReplyContext
from knowgate.offline_eval.suites.ookb import OokbSuite
from knowgate.offline_eval.systems.comparison import Comparison
from knowgate.offline_eval.systems.replying import Material
from tests.offline_eval.systems.asked import calibrated_run, reader, run


def test_no_judge_takes_a_guards_reply_for_an_answer(tmp_path: Path) -> None:
    guard = calibrated_run(tmp_path)
    comparison = Comparison(
        models={"reader": reader()},
        retrievals=("direct", "basic_rag"),
        guards=("off", guard),
    )
    seen: list[str] = []

    def never(material: object) -> str:
        seen.append(material.reply_id)  # type: ignore[attr-defined]
        return "no"

    run(
        tmp_path / "kb.jsonl",
        tmp_path / "out",
        comparison,
        settings=OokbSuite.settings(limit=3),
        judges=[FunctionJudge("gullible", Judgement.ABSTENTION, never), DetectorJudge()],
    )

    found = RepliesRun.read(tmp_path / "out")
    own = [row.reply_id for row in found.replies.values() if row.route is Route.ABSTAIN]
    # Nothing retrieved and not enough retrieved are worded differently.
    assert len({found.replies[name].response for name in own}) == 2
    for name in own:
        for judge in ("gullible", "detector"):
            assert found.judgements[f"{name}/abstention/{judge}"].outcome == "yes"
    assert not set(seen) & set(own)
    assert len(seen) + len(own) == len(found.replies)


def test_a_first_passage_that_is_too_long_is_cut_at_a_word() -> None:
    held = {"kb": {"a": "one two three four", "b": "five"}}
    context = ReplyContext(kind="passages", passages=("a", "b"))

    def shown(most: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        material = Material(models={}, guards={}, passages=held, context_chars=most)
        found = material.shown(context, "kb")
        return found.context.passages, found.passages

    assert shown(22) == (("a", "b"), ("one two three four", "five"))
    assert shown(21) == (("a",), ("one two three four",))
    assert shown(10) == (("a",), ("one two",))
    assert shown(7) == (("a",), ("one two",))
    assert shown(2) == (("a",), ("on",))
