"""The reader of foreign files: what, file, line and field of the first fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from knowgate.guard.errors import InputError
from knowgate.guard.read_models import check_model, read_model, read_models


class Line(BaseModel):
    """What a line of these tests must be."""

    model_config = ConfigDict(frozen=True)
    name: str
    share: float = 0.0

    @field_validator("share")
    @classmethod
    def _in_range(cls, value: float) -> float:
        if not 0 <= value <= 1:
            raise ValueError("must be between 0 and 1")
        return value


def test_lines_come_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"name": "a"}\n\n{"name": "b", "share": 0.5}\n')
    assert list(read_models(path, Line)) == [
        (f"{path}:1", Line(name="a")),
        (f"{path}:3", Line(name="b", share=0.5)),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ({}, "field 'name': Field required"),
        ({"name": 1}, "field 'name': Input should be a valid string"),
        ({"name": "a", "share": 2}, "field 'share': must be between 0 and 1"),
    ],
)
def test_a_fault_names_file_line_and_field(
    tmp_path: Path, line: dict[str, object], what: str
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"name": "a"}\n' + json.dumps(line) + "\n")
    with pytest.raises(InputError) as caught:
        list(read_models(path, Line, hint="mend it"))
    assert (caught.value.what, caught.value.where, caught.value.hint) == (
        what,
        f"{path}:2",
        "mend it",
    )


def test_one_model_of_a_file_and_what_is_no_object(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text('{"name": "a"}')
    assert read_model(path, Line) == Line(name="a")
    path.write_text("[]")
    with pytest.raises(InputError, match="valid dictionary or instance of Line"):
        read_model(path, Line)


def test_deep_nesting_is_an_error_of_the_file() -> None:
    class Deep(BaseModel):
        inner: Deep | None = None

    value: dict[str, object] = {}
    for _ in range(100_000):
        value = {"inner": value}
    with pytest.raises(InputError):
        check_model(Deep, value, where="here")
