"""Run what a page of the documentation shows at a prompt, in this process."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from starlette.testclient import TestClient
from typer.testing import CliRunner

from knowgate.guard.signals import relevance
from knowgate.offline_eval.cli import app
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.offline_eval.suites.ookb.toy import ToyEncoder

# Options that make a command short, by its first words.
_SHORTER = {
    "eval uniknow": "--limit 4 --set samples=2 --methods naive,guard_naive --dtype float32",
    "eval uaqfact": "--limit 1",
    "eval conflict": "--limit 2 --tasks CK,PK",
    "eval judge-bias": "--limit 4",
    "eval ookb": "--limit 2",
    "kg generate": "--per-type 4",
    # The toy reranker has random weights.
    "calibrate --run run-reranker": "--write-anyway",
    "kg generate http://127.0.0.1": "--endpoint pause=0",
    "serve": "--port 0",
}
# What the reader has, and the tests have not.
_WIKIDATA = "http://www.wikidata.org"
_REPLACED = {
    "smollm2": "embedded",
    # One verdict of the five.
    "judge:openai:gpt-4o-mini": "judge:openai:gpt-4o-mini,samples=1",
    "wdt:P39 wd:Q11696": f"<{_WIKIDATA}/prop/direct/P39> <{_WIKIDATA}/entity/Q300>",
}
# Where an encoder is made for retrieval.
_SEARCHING = {
    "measure": ["suites.ookb.instruments.BiEncoderScorer"],
    "eval": ["suites.ookb._suite.BiEncoderScorer", "suites.uniknow._contexts.BiEncoderScorer"],
    "play": [],
}
# Whose requests the servers get.
_READER = ("127.0.0.1", 50_000)
# Exit codes that are results too: a policy that should not serve, a log that proves nothing.
_RESULTS = {"calibrate": {3}, "shadow-report": {1, 3}}


@cache
def command_line() -> Any:
    """The command line, built once: Typer builds all commands that are registered."""
    return typer.main.get_command(app)


def _small() -> Path:
    """The first questions of the sample knowledge base, in the working directory."""
    lines = sample_knowledge_base_path().read_text(encoding="utf-8").splitlines()
    path = Path("sample.jsonl")
    path.write_text("\n".join(lines[:10]), encoding="utf-8")
    return path


@dataclass
class Consoles:
    """The prompts of one page: variables and the last server stay from line to line.

    Attributes:
        patch: of the page.
        replaced: addresses that the page names → servers of the tests.
        real: whether the default scorer is asked, in place of the lexical one.
        served: the last server that was started.
    """

    patch: pytest.MonkeyPatch
    replaced: Mapping[str, str]
    real: bool = False
    served: Any = field(default=None, init=False)

    def run(self, line: str, where: str) -> None:
        """Run one line; fail with `where` if its exit code is that of an error."""
        for command in line.split(" && "):
            program, *words = self._words(command)
            if program == "knowgate":
                self._knowgate(words, where)
            elif program == "curl":
                self._curl(words, where)
            else:
                pytest.fail(f"{where}: {program} is not run by the tests: mark the block")

    def _words(self, command: str) -> list[str]:
        command = command.replace("$(openssl rand -hex 32)", secrets.token_hex(32))
        words = shlex.split(os.path.expandvars(command), comments=True)
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            self.patch.setenv(name, value.replace("…", "x"))
        for old, new in {**_REPLACED, **self.replaced}.items():
            words = [re.sub(rf"\b{re.escape(old)}\b", new, word) for word in words]
        return words

    def _knowgate(self, words: list[str], where: str) -> None:
        words, pipe = (words[: words.index("|")], words[-1]) if "|" in words else (words, "")
        for first, options in _SHORTER.items():
            if re.match(rf"{re.escape(first)}\b", " ".join(words)) and "--dry-run" not in words:
                words += options.split()
        with self._instruments(words):
            done = CliRunner().invoke(app, words)
        expected = {0} | _RESULTS.get(words[0], set())
        expected |= {1} if any(word.startswith("--fail-") for word in words) else set()
        line = shlex.join(words)
        assert done.exit_code in expected, f"{where}: {line}\n{done.output}\n{done.exception!r}"
        if pipe:
            found = json.loads(done.stdout)
            for name in pipe.removeprefix(".").split("."):
                found = found[name]

    @contextmanager
    def _instruments(self, words: list[str]) -> Iterator[None]:
        """Put instruments that need no model, and no browser, in the place of the real ones."""
        with pytest.MonkeyPatch.context() as patch:
            if not self.real:
                scorers = sys.modules["knowgate.guard.signals.relevance.registry"]._SCORERS
                patch.setitem(scorers, "sufficiency", lambda **_: relevance.LexicalScorer())
            for module in _SEARCHING.get(words[0], _SEARCHING["measure"]):
                patch.setattr(f"knowgate.offline_eval.{module}", ToyEncoder)
            opened: list[str] = []
            patch.setenv("DISPLAY", ":0")
            patch.setattr("webbrowser.open", opened.append)
            ask = lambda server, sockets=None: self._ask(server.config, opened)  # noqa: E731
            patch.setattr("uvicorn.Server.run", ask)
            patch.setenv("COLUMNS", "300")
            if words[0] == "play":
                patch.setattr("knowgate.offline_eval.testbed.sample_knowledge_base_path", _small)
            patch.setattr("typer.testing._get_command", lambda app: command_line())
            yield

    def _ask(self, config: Any, opened: list[str]) -> None:
        """Ask a server for its first page, in place of serving until somebody ends it."""
        self.served = config.app
        url = opened[-1] if opened else "http://127.0.0.1/healthz"
        found = TestClient(self.served, client=_READER).get(url)
        assert found.status_code == 200, found.text

    def _curl(self, words: list[str], where: str) -> None:
        [url] = [word for word in words if word.startswith("http")]
        given = dict(pairwise(words))
        headers = dict([given["-H"].split(": ")]) if "-H" in given else {}
        client = TestClient(self.served, client=_READER)
        found = client.post(url, json=json.loads(given["--json"]), headers=headers)
        assert found.status_code == 200, f"{where}: {found.text}"
