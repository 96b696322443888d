"""Hostile texts in pages, requests of other sites to the label server, and slow patterns."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from knowgate.guard.abstention import AbstentionDetector
from knowgate.guard.matching import canonical_answer, is_refusal, same_answer
from knowgate.guard.signals.answerability import PremiseChecker
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval import report
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.web import PageServer, label_app
from tests.support.report_page import Page

from .command_line import knowgate
from .connections import attack
from .outcome import Outcome, tally
from .run_files import INPUTS

HOSTILE_TEXTS = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "[click](javascript:alert(1))",
    "![x](http://attacker.invalid/x.png)",
    "<a href='javascript:alert(1)'>x</a>",
    "]]><script>alert(1)</script>",
    "--><script>alert(1)</script>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "\u2028</script\u2029><script>alert(1)//",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
)


def hostile_run(folder: Path, texts: Sequence[str] = HOSTILE_TEXTS) -> Path:
    """A run of logged replies in which every text of the user's is hostile."""
    log = INPUTS / "gpt_runs" / "few_BASIC_RAG_basic.jsonl"
    for source, field in ((INPUTS / "few.jsonl", "question"), (log, "response")):
        lines = []
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines()):
            row = json.loads(line)
            # The id tells questions with one text apart; files are named by nobody else.
            row[field] = f"{number} {texts[number % len(texts)]}"
            if field == "question":
                row["answer"] = f"{number} {texts[(number + 5) % len(texts)]}"
                row["topic"] = texts[(number + 7) % len(texts)]
            lines.append(json.dumps(row))
        (folder / source.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    run, signals = folder / "run", folder / "run" / "signals"
    asked = ("--questions", folder / "few.jsonl")
    replay = ("--replay", folder / log.name)
    for command in (
        ("eval", "ookb", *asked, *replay, "--out", run),
        ("report", run, "--format", "html,md"),
        ("measure", *asked, "--scorer", "lexical", "--out", signals),
        ("report", signals, "--format", "html"),
    ):
        ended = knowgate(*command)
        if ended.code != 0:
            raise RuntimeError(ended.err)
    return run


_OWN_SCRIPT = (Path(report.__file__).parent / "templates" / "what_if.js").read_text("utf-8")
_DATA = re.compile(r'<script type="application/json" id="what-if(?:-\d+)?-data">[^<>&]*</script>')


def runs_script(page: str) -> bool:
    """Whether a page holds a foreign script, a handler, or anything from elsewhere."""
    found = Page(_DATA.sub("", page.replace(f"<script>{_OWN_SCRIPT}</script>", "")))
    outside = [one for one in found.references if one and not one.startswith(("#", "data:"))]
    return bool(found.tags & {"script", "iframe", "object", "embed"} or found.handlers or outside)


def pages(run: Path) -> Outcome:
    """Reports over hostile texts."""
    found = sorted(run.rglob("*.html"))
    outcome = tally(
        "script in a report", [(p.name, p.read_text("utf-8")) for p in found], runs_script
    )
    shown = sum(text in Page(p.read_text("utf-8")).text for p in found for text in HOSTILE_TEXTS)
    if not shown:
        raise RuntimeError("the reports show none of the hostile texts")
    return outcome


# Headers that a page of another site makes a browser send, or that a rebound name would.
FOREIGN: dict[str, dict[str, str]] = {
    "another host": {"Host": "attacker.invalid"},
    "a host that begins like ours": {"Host": "127.0.0.1.attacker.invalid:80"},
    "no host": {"Host": ""},
    "another origin": {"Origin": "http://attacker.invalid"},
    "no origin": {"Origin": "null"},
    "a request across sites": {"Sec-Fetch-Site": "cross-site"},
    "a request of the same site": {"Sec-Fetch-Site": "same-site"},
    "a form": {"Content-Type": "application/x-www-form-urlencoded"},
    "a form with files": {"Content-Type": "multipart/form-data"},
    "plain text": {"Content-Type": "text/plain"},
}
_Request = tuple[str, bytes | None, dict[str, str]]
_VOTE = json.dumps({"criterion": "abstention", "outcome": "yes"}).encode()


def requests(run: Path) -> Outcome:
    """Requests of other pages to the label server."""
    session = LabelSession.annotate(RepliesRun.read(run), "anna", size=3, seed=1)
    with serving(session) as url:
        parts = urlsplit(url)
        tries: list[tuple[str, _Request]] = []
        # As if the browser had sent the cookie along, which it does not for other sites.
        cookie = cookie_of(url)
        for name, headers in FOREIGN.items():
            plain = {"Content-Type": "application/json", **cookie, **headers}
            tries.append((f"label: {name}", ("POST", _VOTE, plain)))
            if "Content-Type" not in headers:
                tries.append((f"read: {name}", ("GET", None, {**cookie, **headers})))
        plain = {"Content-Type": "application/json"}
        tries.append(("label: without the cookie", ("POST", _VOTE, plain)))
        tries.append(("read: without the cookie", ("GET", None, {})))
        if not _answered(parts)(("GET", None, cookie)):
            raise RuntimeError("the server does not answer its own page")
        outcome = tally("request of another page to the label server", tries, _answered(parts))
    labelled = list((run / "labels").glob("anna.jsonl"))
    stored = sum(path.stat().st_size > 0 for path in labelled)
    return Outcome(outcome.attack, outcome.tried, outcome.through + stored, cases=outcome.cases)


def cookie_of(url: str) -> dict[str, str]:
    """The header that a browser sends once it has opened the printed address."""
    parts = urlsplit(url)
    return {"Cookie": f"knowgate-{parts.port}={parts.query.removeprefix('token=')}"}


def _answered(parts: Any) -> Callable[[_Request], bool]:
    def succeeds(request: _Request) -> bool:
        method, body, headers = request
        path = "/label/replies/0" + ("/label" if method == "POST" else "")
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            return connection.getresponse().status < 400
        finally:
            connection.close()

    return succeeds


@contextlib.contextmanager
def serving(session: LabelSession) -> Iterator[str]:
    """Serve the labelling page on a thread; gives its address."""
    with PageServer(label_app(session)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


_PIECES = (
    *(" ", "a", "a ", "a.", "1,", "1 ", "1.", "(", "[1]", '"', "-", "\n", "?", "我", "'s "),
    *("not ", "I do not know ", "the ", "in 1990 ", "one hundred ", "January 1 ", "a\u0301"),
)


def readers() -> dict[str, Callable[[str], object]]:
    """Whatever reads texts of users, documents and models by patterns."""
    detector, checker, lexical = AbstentionDetector(), PremiseChecker(), LexicalScorer()
    return {
        "abstention": lambda text: detector.detect(text, question="When?"),
        "canonical answer": canonical_answer,
        "same answer": lambda text: same_answer(text, text + "."),
        "refusal": is_refusal,
        "premise": lambda text: checker.detect(text, [text]),
        "lexical": lambda text: lexical.score(text, [text]),
    }


def patterns(characters: int) -> Outcome:
    """Repetitive texts: time may grow with their length, but not with its square."""

    def looks_slow(read: Callable[[str], object], piece: str) -> bool:
        seconds = []
        for length in (characters // 4, characters):
            text = piece * (length // len(piece)) + "!"
            started = time.process_time()
            read(text)
            seconds.append(time.process_time() - started)
        # Four times as long: 4 times the time where it grows with the length, 16 with the square.
        return seconds[1] > 0.5 and seconds[1] > 9 * max(seconds[0], 1e-3)

    def slow(case: tuple[Callable[[str], object], str]) -> bool:
        # Measured again before it counts: a busy machine slows one of the two by chance.
        return all(looks_slow(*case) for _ in range(3))

    cases = [
        (f"{name}: {piece!r}", (read, piece)) for name, read in readers().items()
        for piece in _PIECES
    ]  # fmt: skip
    return tally("text that takes time with the square of its length", cases, slow)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Write hostile pages, ask the server from elsewhere, and read repetitive texts."""
    run = hostile_run(folder)
    yield pages(run)
    yield requests(run)
    yield patterns(40_000 if full else 4_000)
    if full:
        yield from crowds(full=True)


def crowds(*, full: bool) -> Iterator[Outcome]:
    """Take all connections and memory of the server of a page."""
    yield from attack("the server of a page", _serve_page, 64, full=full)


async def _page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"page"})


def _serve_page() -> None:
    with PageServer(_page) as server:
        print(server.url, flush=True)
        server.serve_forever()
