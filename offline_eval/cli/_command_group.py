"""The commands by name: each is imported when it is asked for.

`knowgate --help` then answers at once, where importing all commands takes seconds. The
summaries stand here a second time, because the help needs them; a test compares them with
those of the commands.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from shutil import get_terminal_size
from types import MappingProxyType
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from ._console import err
from ._project_file import ProjectFile

_NARROWEST_BOXES = 72
# A broken file must not keep these from working.
_WITHOUT_PROJECT = ("doctor", "init")
_TOLD = "knowgate.project_file_told"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command or group of commands.

    Attributes:
        summary: its line in the help.
        modules: of this package; importing them registers it.
    """

    summary: str
    modules: tuple[str, ...]


COMMANDS = MappingProxyType(
    {
        "abstained": Entry(
            "Tell replies that abstain from replies that answer, without a language model.",
            ("_abstained",),
        ),
        "calibrate": Entry(
            "Choose the thresholds that keep the risk below the bound, with a guarantee.",
            ("_calibrate",),
        ),
        "check": Entry(
            "Check a release: measure, calibrate or take a policy, report, and check gates.",
            ("_check",),
        ),
        "compare-scorers": Entry(
            "Compare scorers on your own questions, and say which one to take.",
            ("_compare_scorers",),
        ),
        "dashboards": Entry(
            "Write a dashboard for Grafana, and recording and alert rules for Prometheus.",
            ("_dashboards",),
        ),
        "demo": Entry(
            "Guard a small RAG chain, calibrate it and report: offline, without a key.",
            ("_demo",),
        ),
        "doctor": Entry(
            "Check the installation: packages, embedded weights, scorers, device.",
            ("_doctor",),
        ),
        "drift": Entry(
            "Compare live decisions with the calibration set, and feedback with the promise.",
            ("_drift",),
        ),
        "index": Entry(
            "Encode passages ahead of time, so that a guard does not encode them for a request.",
            ("_index",),
        ),
        "init": Entry("Write a commented knowgate.toml, which all commands read.", ("_init",)),
        "judge": Entry(
            "Judge every reply of a run: abstention, factuality, how it fails, or what you ask.",
            ("_judge",),
        ),
        "label": Entry(
            "Label replies in the browser, settle disagreements, print agreement, export.",
            ("_label",),
        ),
        "measure": Entry(
            "Measure signals to calibrate on: what the guard would see, with the answer and "
            "without.",
            ("_measure",),
        ),
        "plan": Entry(
            "Say what can be certified with these questions, and with 20 to 1,000 like them.",
            ("_plan",),
        ),
        "play": Entry(
            "Try a guarded chain in the browser: what it retrieves, measures, decides and replies.",
            ("_play",),
        ),
        "recalibrate": Entry(
            "Keep a policy's promise up to date: same bound, δ, loss and routes, newer questions.",
            ("_recalibrate",),
        ),
        "report": Entry("Write the report of a run, and check gates against it.", ("_report",)),
        "review": Entry(
            "Review leaks: is a question answered after all, although its source was left out?",
            ("_review",),
        ),
        "route": Entry("Decide from logged signals exactly as the guard would.", ("_route",)),
        "score": Entry("Score how far passages suffice to answer a question.", ("_score",)),
        "serve": Entry(
            "Serve the guard over HTTP, and as a proxy in front of an OpenAI-compatible model.",
            ("_serve",),
        ),
        "serve-lm": Entry(
            "Serve a local language model with OpenAI's interface, to try things offline.",
            ("_serve_lm",),
        ),
        "shadow-report": Entry(
            "Say what enforcing a guard would have changed, from its decisions in shadow mode.",
            ("_shadow_report",),
        ),
        "import": Entry("Make a run of replies from files that other tools wrote.", ("_import",)),
        "export-onnx": Entry(
            "Write a scorer as ONNX graphs, and check its scores against torch.",
            ("_export_onnx",),
        ),
        "kb": Entry("From documents to questions for `knowgate measure`.", ("_kb", "_kb_filter")),
        "kg": Entry("From a knowledge graph to questions for `knowgate eval uaqfact`.", ("_kg",)),
        "eval": Entry("Run a suite of cases into a run folder.", ("_suite_command",)),
        "models": Entry(
            "Language models that a package carries: what there is, and how to get one.",
            ("_models",),
        ),
        "microworld": Entry(
            "The bundled language model, of which it is known fact by fact what it knows.",
            ("_microworld",),
        ),
        "tune": Entry("Adapt a part of the guard to your own data.", ("_tune", "_tune_scenarios")),
        "view": Entry(
            "Look through runs in the browser: filter, search, read single cases, compare two "
            "runs.",
            ("_view",),
        ),
    }
)


def import_commands(*names: str) -> None:
    """Import the modules of the commands, of all by default; each registers itself."""
    for name in names or COMMANDS:
        for module in COMMANDS[name].modules:
            import_module(f".{module}", __package__)


class CommandGroup(TyperGroup):
    """The root of the command line.

    Attributes:
        app: that commands register themselves with.
    """

    app: ClassVar[Any]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command after importing it; None where there is none of that name."""
        return with_help_mode(_built(cmd_name, self.app)) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and give it what `knowgate.toml` says."""
        name, command, rest = super().resolve_command(ctx, args)
        if not ctx.resilient_parsing and name not in _WITHOUT_PROJECT:
            ctx.default_map = _defaults(ctx, command, [str(name)], rest)
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help from the summaries, without importing a command."""
        self._listed().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete names of commands from the summaries, likewise."""
        listed = self._listed()
        # Names are looked up in the command of the context.
        inner = type(ctx)(listed, info_name=ctx.info_name, resilient_parsing=True)
        return listed.shell_complete(inner, incomplete)

    def _listed(self) -> TyperGroup:
        return TyperGroup(
            name=self.name,
            commands={
                name: TyperCommand(name, help=entry.summary) for name, entry in COMMANDS.items()
            },
            params=self.params,
            help=self.help,
            epilog=self.epilog,
            rich_markup_mode=_help_mode(),
            rich_help_panel=self.rich_help_panel,
        )


def with_help_mode(command: Any) -> Any:
    """Set how the help of a command, and of those below it, is drawn."""
    command.rich_markup_mode = _help_mode()
    for one in getattr(command, "commands", {}).values():
        with_help_mode(one)
    return command


def _help_mode() -> Any:
    # In its boxes rich cuts the names of options where the terminal is narrow.
    return "markdown" if get_terminal_size().columns >= _NARROWEST_BOXES else None


def _defaults(ctx: Any, command: Any, names: list[str], rest: list[str]) -> dict[str, Any]:
    """Return the defaults of a command from `knowgate.toml`, below its names."""
    if {"-h", "--help"} & set(rest):
        return {}
    file = ProjectFile.find(ctx.params.get("config"), COMMANDS)
    if file is None:
        return {}
    while hasattr(command, "get_command") and rest:
        command, name, rest = command.get_command(ctx, rest[0]), rest[0], rest[1:]
        if command is None:
            return {}
        names = [*names, name]
    found: Any = file.defaults(names, command, rest)
    # `check` runs other commands below the same context.
    if found and not ctx.meta.setdefault(_TOLD, False):
        ctx.meta[_TOLD] = True
        err.print(f"options from {file.path}", markup=False)
    for name in reversed(names):
        found = {name: found}
    return dict(found)


@cache
def _built(name: str, app: Any) -> Any:
    """Build a command once, and no other one that is registered."""
    import_commands(name)
    alone = copy(app)
    alone.registered_commands = [one for one in app.registered_commands if _name(one) == name]
    alone.registered_groups = [one for one in app.registered_groups if one.name == name]
    return typer.main.get_group(alone).commands.get(name)


def _name(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)
