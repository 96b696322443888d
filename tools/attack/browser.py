"""Hostile texts in pages that a browser shows, and streams that break under its page.

Needs Chromium and playwright; without them nothing is tried.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from starlette.types import ASGIApp

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Guard, Policy
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.web import (
    PageServer,
    Playground,
    index_runs,
    label_app,
    play_app,
    view_app,
)
from tests.support.browser import CHROMIUM, chromium

from .outcome import Outcome
from .pages import HOSTILE_TEXTS, hostile_run

_TEXTS = (
    *HOSTILE_TEXTS,
    "<img src=x onerror=window.pwned=1>",
    '" autofocus onfocus="window.pwned=1',
    "<style>*{display:none}</style>",
    "<base href='http://attacker.invalid/'><meta http-equiv=refresh content='0;url=//a.invalid'>",
    "<link rel=prefetch href=http://attacker.invalid/><form action=http://attacker.invalid/>",
    "</script><script>window.pwned=1</script>",
    "</textarea></select></option><script>window.pwned=1</script>",
    "__proto__",
    "constructor",
    "\u202egnp.exe\u202c \u0000\ufeff",
)
# Replies of a server under the playground's page that end too early.
_IDLE = "#result:not([aria-busy])"
_LINES = {"Content-Type": "application/x-ndjson"}
_STREAMS = {
    "nothing": "",
    "half a line": '{"event": "passa',
    "passages alone": '{"event": "passages", "passages": []}\n',
    "half of a decision": '{"event": "passages", "passages": []}\n{"event": "decision", "rou',
    "no JSON": "<html>\n",
    "another type": "[1]\n7\nnull\n",
}


class _Watch:
    """Pages of one browser, and what they did that texts must not make them do."""

    def __init__(self, browser: Any) -> None:
        self._context = browser.new_context()
        self._context.on("page", lambda page: self.found.append(f"a window: {page.url}"))
        self._allowed: list[str] = []
        self.found: list[str] = []
        self.shown = 0

    def open(self, address: str, ready: str = "body") -> Any:
        """Open a page, wait until it shows what it has, and note what its texts did."""
        page = self._context.new_page()
        self.found.clear()
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self._asked(address, request.url))
        page.set_default_timeout(60_000)
        page.goto(address)
        page.wait_for_selector(ready)
        return page

    def close(self, page: Any, name: str) -> tuple[str, bool]:
        """Touch everything that a handler could sit on, and close the page."""
        page.evaluate(
            "document.querySelectorAll('*').forEach(e => ['mouseover', 'focus', 'error', 'load']"
            ".forEach(k => e.dispatchEvent(new Event(k))))"
        )
        if page.evaluate("window.pwned") is not None:
            self.found.append("script")
        if page.evaluate("getComputedStyle(document.body).display") == "none":
            self.found.append("style")
        foreign = "document.querySelectorAll('iframe, object, embed, base, form[action^=http]')"
        if page.evaluate(f"{foreign}.length"):
            self.found.append("element")
        self.shown += sum(text in page.content() for text in ("alert(1)", "&lt;img"))
        page.close()
        return f"{name}: {', '.join(self.found)}", bool(self.found)

    def _dialog(self, dialog: Any) -> None:
        self.found.append("dialog")
        dialog.dismiss()

    def _asked(self, address: str, url: str) -> None:
        own = (
            address.split("?", maxsplit=1)[0]
            if address.startswith("file:")
            else address[: address.index("/", 8)]
        )
        if not url.startswith((own, "data:", "blob:")):
            self.found.append(f"asked {url[:60]}")


@contextlib.contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    with PageServer(app) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


def _playground(folder: Path) -> Playground:
    """A chain that retrieves hostile passages, named by hostile titles, and repeats them."""
    scorer = FakeScorer(default=0.9)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    found = [Document(text, metadata={"source": text}) for text in _TEXTS]
    chain = GuardedRAG(
        guard=Guard(policy, scorer=scorer, metrics=False),
        retriever=RunnableLambda(lambda _question: found),
        with_context=RunnableLambda(lambda given: given["context"]),
    )
    path = folder / "saved.jsonl"
    return Playground(chain, _TEXTS[0], path, examples=_TEXTS)


def reports(watch: _Watch, run: Path) -> Iterator[tuple[str, bool]]:
    """Open the reports of a run from the disk."""
    for path in sorted(run.rglob("*.html")):
        page = watch.open(path.as_uri())
        yield watch.close(page, f"report {path.parent.name}/{path.name}")


def viewing(watch: _Watch, run: Path) -> Iterator[tuple[str, bool]]:
    """Look through the run, search for hostile texts, and read cases."""
    with _served(view_app(*index_runs([run]))) as url:
        page = watch.open(url)
        links = [link.get_attribute("href") for link in page.query_selector_all("a[href^='/']")]
        root = url[: url.index("/", 8)]
        yield watch.close(page, "view")
        for link in list(dict.fromkeys(filter(None, links)))[:12]:
            page = watch.open(root + link)
            yield watch.close(page, f"view {link[:40]}")


def labelling(watch: _Watch, run: Path) -> Iterator[tuple[str, bool]]:
    """Label hostile replies."""
    session = LabelSession.annotate(RepliesRun.read(run), "anna", size=8, seed=1)
    with _served(label_app(session)) as url:
        page = watch.open(url)
        for _ in range(len(session)):
            page.wait_for_load_state("networkidle")
            page.keyboard.press("y")
        yield watch.close(page, "label")


def playing(watch: _Watch, folder: Path) -> Iterator[tuple[str, bool]]:
    """Ask a chain whose passages, titles, examples and replies are hostile, and strike some out."""
    with _served(play_app(_playground(folder))) as url:
        page = watch.open(url)
        for text in (_TEXTS[1], _TEXTS[0]):
            page.fill("#search", text)
            page.keyboard.press("Enter")
            page.wait_for_selector("#passages li .text")
            page.wait_for_selector(_IDLE, state="attached")
        yield watch.close(page, "play")
        for name, text in _STREAMS.items():
            page = watch.open(url)
            page.route(
                "**/ask", lambda route, _, text=text: route.fulfill(body=text, headers=_LINES)
            )
            page.fill("#search", "When?")
            page.keyboard.press("Enter")
            page.wait_for_selector(_IDLE, state="attached")
            told = page.evaluate("!document.getElementById('problem').hidden")
            _, acted = watch.close(page, name)
            yield f"play, a stream of {name}: {'no word of it' * (not told)}", acted or not told


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Show hostile texts on every page there is."""
    if CHROMIUM is None:
        return
    run = hostile_run(folder, _TEXTS)
    with chromium() as browser:
        watch = _Watch(browser)
        found = [*reports(watch, run), *playing(watch, folder)]
        if full:
            found += [*viewing(watch, run), *labelling(watch, run)]
    if not watch.shown:
        raise RuntimeError("the pages show none of the hostile texts")
    through = [name for name, acted in found if acted]
    yield Outcome(
        "hostile text that acts in a browser", len(found), len(through), 0, tuple(through)
    )
