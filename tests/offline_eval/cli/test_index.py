"""`knowgate index`."""

from __future__ import annotations

from pathlib import Path

from tests.offline_eval.cli.commands import Knowgate, write_lines


def test_passages_are_encoded_once_appended_and_copied_to_a_new_folder(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    opening = "The pool opens at six."
    lines: list[dict[str, object]] = [
        {"id": 1, "text": opening},
        {"page_content": "Dogs pay 12 €."},
    ]
    write_lines(tmp_path / "kb.jsonl", lines)
    (tmp_path / "guide.md").write_text("# Library\n\nReaders borrow twelve books.\n")
    out = tmp_path / "passages"

    first = knowgate("index", tmp_path / "kb.jsonl", "--out", out)
    second = knowgate("index", tmp_path / "kb.jsonl", tmp_path / "guide.md", "--out", out)
    write_lines(tmp_path / "kb.jsonl", lines[:1])
    third = knowgate("index", tmp_path / "kb.jsonl", "--out", tmp_path / "new", "--reuse", out)

    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("2 passages read, 2 texts encoded; 2 texts, ")
    assert second.out.startswith("3 passages read, 1 texts encoded; 3 texts, ")
    assert third.out.startswith("1 passages read, 0 texts encoded, 1 copied; 1 texts, ")

    pairs = tmp_path / "pairs.jsonl"
    write_lines(pairs, [{"question": "When does it open?", "passages": [opening]}])
    scored = knowgate(
        "apply", "--scorer", f"sufficiency,passages={out}", "--input", pairs,
        "--output", tmp_path / "scores.jsonl",
    )  # fmt: skip
    assert (scored.code, scored.err) == (0, "")
