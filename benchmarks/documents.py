"""Documentation that this project did not write, with questions that were written by hand.

The texts stay where they are published: as Debian packages, which `documentation` downloads with
`apt-get download` and unpacks into a folder (nothing is installed), and this repository's own
pages. Only the questions are kept here, in `benchmarks/questions/<name>.jsonl`:

    {"id": "c01", "question": "…", "page": "setup.html", "anchor": "two to six words",
     "answer": "…"}
    {"id": "n01", "question": "…", "page": null, "note": "what is lacking"}

A question with a page is answered there, in the passage that holds the words of `anchor`. One
without a page is a near miss: on the documentation's topics, and answered nowhere in it.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from lxml import etree

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_jsonl
from knowgate.offline_eval.data.facts import load_chunks

HERE = Path(__file__).resolve().parent
QUESTIONS = HERE / "questions"
Part = Literal["fit", "check"]


@dataclass(frozen=True)
class Documentation:
    """Pages of one project.

    Attributes:
        name: of its file of questions.
        part: whether the bundled threshold is fitted on it, or checked on it.
        package: Debian package; empty for this repository.
        folder: of the pages in the package.
        pattern: of the pages in the folder.
        skipped: pages that hold nothing but lists of links, licences or code.
    """

    name: str
    part: Part
    package: str
    folder: str
    pattern: str
    skipped: tuple[str, ...] = ()


_INDEXES = ("genindex.html", "search.html", "index.html", "py-modindex.html", "license.html")
DOCUMENTATIONS = (
    Documentation("debian_faq", "fit", "debian-faq", "usr/share/doc/debian/FAQ", "*.en.html"),
    Documentation(
        "click", "fit", "python-click-doc", "usr/share/doc/python-click-doc/html", "*.html",
        (*_INDEXES, "changes.html", "api.html"),
    ),
    Documentation(
        "gnome", "fit", "gnome-user-docs", "usr/share/help/C/gnome-help", "*.page",
        ("legal.xml",),
    ),
    Documentation("knowgate", "fit", "", "docs", "**/*.md"),
    Documentation(
        "borg", "check", "borgbackup-doc", "usr/share/doc/borgbackup/html", "**/*.html",
        (*_INDEXES, "changes.html", "authors.html"),
    ),
    Documentation(
        "developers_reference", "check", "developers-reference", "usr/share/developers-reference",
        "*.html",
        (*_INDEXES, "developers-reference.html"),  # all pages in one
    ),
    Documentation(
        "flask", "check", "python-flask-doc", "usr/share/doc/python-flask-doc/html", "**/*.html",
        (*_INDEXES, "changes.html", "api.html"),
    ),
)  # fmt: skip


def documentation(name: str) -> Documentation:
    """Return the documentation of this name."""
    return next(one for one in DOCUMENTATIONS if one.name == name)


def default_store() -> Path:
    """Return the folder that pages are unpacked into."""
    named = os.environ.get("KNOWGATE_DOCUMENTS")
    return Path(named) if named else Path(tempfile.gettempdir()) / "knowgate-documents"


def pages_of(one: Documentation, store: Path | None = None) -> Path:
    """Return the folder of a documentation's pages, downloaded and unpacked where it is missing.

    Raises:
        RuntimeError: the package cannot be downloaded.
    """
    found = (store or default_store()) / "pages" / one.name
    if found.is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=found.parent) as spare:
        root = HERE.parent if not one.package else _unpacked(one.package, Path(spare))
        ready = Path(spare) / "ready"
        for path in sorted((root / one.folder).glob(one.pattern)):
            name = path.relative_to(root / one.folder)
            if name.name in one.skipped or name.parts[0].startswith("_"):
                continue
            target = ready / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".page":
                target.with_suffix(".md").write_text(mallard(path), encoding="utf-8")
            else:
                shutil.copyfile(path, target)
        ready.rename(found)
    return found


def _unpacked(package: str, folder: Path) -> Path:
    commands = [["apt-get", "download", "-qq", package]]
    try:
        for command in commands:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive.name, "unpacked"], cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise RuntimeError(f"{package} cannot be downloaded by apt-get: {error}") from None
    return folder / "unpacked"


def mallard(path: Path) -> str:
    """Return a page of GNOME's help as Markdown: titles, paragraphs and items."""
    tree = etree.parse(path, etree.XMLParser(no_network=True, resolve_entities=False, recover=True))
    lines: list[str] = []
    _walk(tree.getroot(), 1, lines)
    return "\n\n".join(lines) + "\n"


_TEXTS = {"p", "title", "screen", "code"}


def _walk(node: etree._Element, depth: int, lines: list[str]) -> None:
    for child in node:
        if not isinstance(child.tag, str):
            continue
        name = etree.QName(child).localname
        if name == "info":
            continue
        if name in _TEXTS:
            text = " ".join("".join(child.itertext()).split())
            mark = "#" * depth + " " if name == "title" and etree.QName(node).localname in (
                "page", "section") else ""  # fmt: skip
            if text:
                lines.append(mark + text)
        else:
            _walk(child, depth + (name == "section"), lines)


@dataclass(frozen=True)
class Asked:
    """One question that was written by hand.

    Attributes:
        question_id: within its documentation.
        question: as a user puts it.
        page: that answers it, as `load_chunks` names it; None for a near miss.
        anchor: words of the passage that holds the answer; empty for a near miss.
        answer: in short; empty for a near miss.
    """

    question_id: str
    question: str
    page: str | None
    anchor: str
    answer: str


def questions_of(name: str) -> list[Asked]:
    """Return the questions on a documentation."""
    return list(_read(QUESTIONS / f"{name}.jsonl"))


def _read(path: Path) -> Iterator[Asked]:
    for _, row in read_jsonl(path):
        yield Asked(
            row["id"], row["question"], row.get("page"), row.get("anchor", ""),
            row.get("answer", ""),
        )  # fmt: skip


@dataclass(frozen=True)
class Retrieved:
    """What the bundled bi-encoder retrieves for a question.

    Attributes:
        asked: the question.
        passages: best first.
        holds: whether each passage holds the answer; all False for a near miss.
    """

    asked: Asked
    passages: tuple[str, ...]
    holds: tuple[bool, ...]


def retrieved(
    one: Documentation,
    encoder: BiEncoderScorer,
    *,
    words: int,
    most: int,
    store: Path | None = None,
) -> list[Retrieved]:
    """Cut the pages into chunks, and retrieve for every question.

    Args:
        one: the documentation.
        encoder: of questions and chunks.
        words: of a chunk, at most.
        most: passages retrieved.
        store: folder of the pages.
    """
    chunks = load_chunks(pages_of(one, store), chunk_size=words)
    texts = [chunk.page_content for chunk in chunks]
    pages = [str(chunk.metadata["source"]) for chunk in chunks]
    embedded, asked = encoder.embed(texts), questions_of(one.name)
    similar = encoder.embed([item.question for item in asked]) @ embedded.T
    return [
        _retrieved(item, texts, pages, np.argsort(-row, kind="stable")[:most].tolist())
        for item, row in zip(asked, similar, strict=True)
    ]


def _retrieved(
    item: Asked, texts: Sequence[str], pages: Sequence[str], order: Sequence[int]
) -> Retrieved:
    anchor = _plain(item.anchor)
    holds = tuple(pages[i] == item.page and anchor in _plain(texts[i]) for i in order)
    return Retrieved(item, tuple(texts[i] for i in order), holds)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


PROSE, PROSE_QUESTIONS = "squad2_dev", 25


def prose(data: Path, encoder: BiEncoderScorer, *, most: int) -> list[Retrieved]:
    """Articles of SQuAD 2.0 in the sufficiency pack that no weight was trained on.

    Paragraphs of the article are retrieved for questions that one of them answers, and for
    questions that people wrote to be unanswerable; at most 25 of each an article.

    Args:
        data: the folder of public data.
        encoder: of questions and paragraphs.
        most: passages retrieved.
    """
    with lzma.open(data / "sufficiency_pack" / "dev.jsonl.xz", "rt", encoding="utf-8") as stream:
        rows = [row for row in map(json.loads, stream) if row["source"] == PROSE]
    answered = {row["qid"] for row in rows if row["label"] == 1}
    found = []
    for article in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == article]
        texts = list(dict.fromkeys(row["passage"] for row in own if row["kind"] != "ablated"))
        good = [(row["question"], row["passage"]) for row in own if row["label"] == 1]
        bad = {row["qid"]: (row["question"], None) for row in own if row["qid"] not in answered}
        chosen = [*good[:PROSE_QUESTIONS], *list(bad.values())[:PROSE_QUESTIONS]]
        embedded = encoder.embed(texts)
        for number, (question, passage) in enumerate(chosen):
            similar = embedded @ encoder.embed([question])[0]
            order = np.argsort(-similar, kind="stable")[:most].tolist()
            item = Asked(f"{article}/{number}", question, passage and article, "", "")
            found.append(
                Retrieved(
                    item, tuple(texts[i] for i in order), tuple(texts[i] == passage for i in order)
                )
            )
    return found


def main() -> None:
    for one in DOCUMENTATIONS:
        folder = pages_of(one)
        chunks = load_chunks(folder, chunk_size=94)
        pages = {chunk.metadata["source"] for chunk in chunks}
        print(f"{one.name:22}{one.part:7}{len(pages):4} pages{len(chunks):6} chunks  {folder}")


if __name__ == "__main__":
    main()
