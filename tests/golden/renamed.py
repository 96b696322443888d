"""What was renamed or dropped on purpose since the expected artefacts were stored."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Rename:
    """One documented exception, applied to what is expected before comparing.

    Attributes:
        kind: `key`: of a JSON object; `value`: anything that stands alone, a text, a cell;
            `text`: a part of such a text; `file`: the path of an artefact, of which `old` is
            a pattern.
        old: what it was.
        new: what it is now; None where it is gone.
        scenario: pattern of the scenarios that it is about.
        within: pattern of the place: file and keys with slashes between them, no indices.
        why: for readers.
    """

    kind: Literal["key", "value", "text", "file"]
    old: Any
    new: Any
    scenario: str = "*"
    within: str = "*"
    why: str = ""

    def concerns(self, scenario: str) -> bool:
        """Whether the scenario is one of those."""
        return fnmatch(scenario, self.scenario)

    def at(self, path: tuple[str, ...]) -> bool:
        """Whether the place is one of those."""
        return fnmatch("/".join(path), self.within)

    def file(self, path: str) -> str | None:
        """The artefact's path now, None where it is gone."""
        if not fnmatch(path, self.old):
            return path
        return None if self.new is None else str(self.new)


# E.g. Rename("key", "abstention_rate", "abstention", within="*/report.json/*").
RENAMED: tuple[Rename, ...] = (
    Rename("text", "knowgate 0.1.0", "knowgate 0.3.0", why="the version, where it is no key"),
    Rename("text", "knowgate 0.2.0", "knowgate 0.3.0", why="the version, where it is no key"),
    Rename("key", "kept_back", "held_out", scenario="calibrate-records", why="standard term"),
    Rename(
        "text",
        "on folds kept back",
        "on held-out folds",
        scenario="calibrate-records",
        why="standard term",
    ),
    Rename(
        "value",
        "how often it declines without need: that is measured, not bounded",
        "how often it abstains without need: that is measured, not bounded",
        scenario="calibrate-records",
        why="one word for abstention",
    ),
    Rename(
        "text", "it declines: says that", "it abstains: says that", why="one word for abstention"
    ),
    Rename("key", "max_mends", "max_repairs", scenario="kb", why="standard term"),
    Rename(
        "text",
        "knowgate.guard._matching.same_answer",
        "knowgate.guard.matching.same_answer",
        why="the module moved; its name is part of the estimator's fingerprint",
    ),
    Rename(
        "value",
        "HuggingFaceChatModel-f43883ea6eb96546",
        "HuggingFaceChatModel-dceb731b6bc17f9f",
        scenario="ookb-models",
        why="the bundled model lies in another folder, which its identity names",
    ),
)

# What is there now and was not: patterns of SCENARIO/files/FILE/KEYS, with indices, such as
# "ookb-*/files/run/report.json/tokens".
ADDED: tuple[str, ...] = (
    # Shares of rows with an error, and which systems the figures over all systems are of.
    "*/files/*report.json/failed",
    "*/files/*report.json/systems/*/failed",
    "*/files/*report.json/pooled",
    # What a question shares with its passage.
    "ookb-signals/files/report/report.json/shared_words",
)
