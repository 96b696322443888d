"""Questions of software documentation, each with the section that answers it, for training.

    python -m tools.sufficiency.documentation --out FILE

A section whose heading asks something answers it, and so does one whose heading names a task
("Installing from source": "How do I install from source?"). Rivals are the sections of the same
documentation that share most with the question. The pages come from Debian packages with
permissive licences, downloaded by `apt-get download`; none of them is in
`benchmarks/documents.py`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lxml import etree, html
from sklearn.feature_extraction.text import TfidfVectorizer

PACKAGES = (
    "ant-doc", "apache2-doc", "cinder-doc", "cmake-doc", "dpdk-doc", "glance-doc", "heat-doc",
    "ironic-doc", "keystone-doc", "krb5-doc", "libreoffice-help-en-us", "llvm-14-doc",
    "neutron-doc", "nodejs-doc", "nova-doc", "openvswitch-doc", "perl-doc", "postgresql-doc-15",
    "putty-doc",
    "python-aiohttp-doc", "python-attr-doc", "python-babel-doc", "python-bottle-doc",
    "python-celery-doc", "python-cryptography-doc", "python-dask-doc", "python-django-doc",
    "python-gevent-doc", "python-lxml-doc", "python-mako-doc", "python-pandas-doc",
    "python-pytest-doc", "python-requests-doc", "python-scrapy-doc", "python-setuptools-doc",
    "python-sklearn-doc", "python-sqlalchemy-doc", "python-sympy-doc", "python-tornado-doc",
    "python-xarray-doc", "python3.11-doc", "restic", "rust-doc", "sphinx-doc", "sqlite3-doc",
    "supervisor-doc", "swift-doc", "twisted-doc", "varnish-doc", "zsh-doc",
)  # fmt: skip
_MOST_OF_A_PACKAGE = 400
_RIVALS = 8
_FEWEST_WORDS, _MOST_WORDS = 12, 150
_HEADINGS = ("h1", "h2", "h3", "h4", "h5")
_ASIDE = re.compile(
    r"genindex|search|changes|changelog|whatsnew|release|modindex|license|news", re.I
)
_NUMBERED = re.compile(r"^[\dA-Z]{1,3}(?:\.\d+)*[.:)]?\s+(?=[A-Z])")
_ASKED = re.compile(
    r"(?i)^(?:how|what|why|when|where|which|who|can|could|do|does|did|is|are|should|will|may|am)\b"
)
# Gerunds that open headings, and their verbs.
_VERBS = dict(
    re.findall(
        r"(\w+):(\w+)",
        "accessing:access adding:add building:build caching:cache calling:call changing:change "
        "checking:check combining:combine comparing:compare computing:compute "
        "configuring:configure connecting:connect controlling:control converting:convert "
        "copying:copy creating:create customizing:customize debugging:debug declaring:declare "
        "defining:define deleting:delete deploying:deploy disabling:disable downloading:download "
        "embedding:embed enabling:enable extending:extend extracting:extract filtering:filter "
        "finding:find formatting:format generating:generate getting:get grouping:group "
        "handling:handle implementing:implement importing:import indexing:index "
        "inspecting:inspect installing:install integrating:integrate iterating:iterate "
        "joining:join limiting:limit listing:list loading:load logging:log making:make "
        "managing:manage mapping:map merging:merge migrating:migrate modifying:modify "
        "monitoring:monitor opening:open optimizing:optimize overriding:override "
        "parsing:parse passing:pass preparing:prepare profiling:profile querying:query "
        "reading:read registering:register removing:remove renaming:rename replacing:replace "
        "retrieving:retrieve returning:return rewriting:rewrite running:run saving:save "
        "selecting:select sending:send serializing:serialize serving:serve setting:set "
        "sharing:share sorting:sort specifying:specify splitting:split starting:start "
        "stopping:stop storing:store subclassing:subclass testing:test translating:translate "
        "understanding:understand updating:update upgrading:upgrade uploading:upload using:use "
        "validating:validate visualizing:visualize working:work writing:write",
    )
)


def question_of(heading: str) -> str | None:
    """The question that a heading asks, or whose task it names; None for any other."""
    text = _NUMBERED.sub("", " ".join(heading.replace("¶", " ").split())).strip()
    words = text.split()
    if not 3 <= len(words) <= 20:
        return None
    if text.endswith("?"):
        return text
    if _ASKED.match(text) and words[0].lower() in ("how", "why"):
        return re.sub(r"(?i)^how to\b", "How do I", text) + "?"
    verb = _VERBS.get(words[0].lower())
    return f"How do I {' '.join([verb, *words[1:]])}?" if verb else None


def sections(page: bytes) -> Iterator[tuple[str, str]]:
    """Each heading of an HTML page with the text below it, up to the next heading."""
    root = html.document_fromstring(page)
    for away in root.xpath("//script|//style|//nav|//*[@class='sphinxsidebar']"):
        if away.getparent() is not None:
            away.drop_tree()
    heading, parts = "", [""]
    for node in root.iter():
        if not isinstance(node.tag, str):
            continue
        if node.tag in _HEADINGS:
            yield heading, " ".join(" ".join(parts).split())
            heading, parts = node.text_content(), [node.tail or ""]
            for inner in node.iterdescendants():
                inner.text = inner.tail = None
        elif node.tag in ("p", "li", "pre", "dt", "dd", "td") and not any(
            one.tag in ("p", "li", "pre", "dd", "td") for one in node.iterancestors()
        ):
            parts.append(node.text_content().replace("¶", " "))
    yield heading, " ".join(" ".join(parts).split())


def pod_sections(page: bytes) -> Iterator[tuple[str, str]]:
    """Each heading of a page of Perl's documentation with the text below it."""
    for part in re.split(r"^=head\d ", page.decode("utf-8", "replace"), flags=re.M)[1:]:
        heading, _, below = part.partition("\n")
        plain = re.sub(r"^=\w+.*$|[A-Z]<+|>+", " ", below, flags=re.M)
        yield heading, " ".join(plain.split())


def cases_of(package: str, folder: Path) -> Iterator[dict[str, object]]:
    """Questions of one package, with their sections and rivals."""
    found: dict[str, tuple[str, str]] = {}
    texts: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".html", ".htm", ".pod") or _ASIDE.search(path.name):
            continue
        try:
            parts = list((pod_sections if path.suffix == ".pod" else sections)(path.read_bytes()))
        except etree.ParserError:
            continue
        for heading, below in parts:
            words = below.split()
            if len(words) < _FEWEST_WORDS:
                continue
            passage = " ".join(words[:_MOST_WORDS])
            texts.append(passage)
            if question := question_of(heading):
                found.setdefault(question, (heading.replace("¶", "").strip(), passage))
    asked = sorted(found.items(), key=lambda one: (not one[0].startswith("How do I"), one[0]))
    asked = asked[:: max(1, len(asked) // _MOST_OF_A_PACKAGE)]
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit(texts or ["none"])
    rows = vectors.transform(texts or ["none"])
    for number, (question, (heading, passage)) in enumerate(asked):
        near = (rows @ vectors.transform([question]).T).toarray()[:, 0]
        rivals = [texts[i] for i in near.argsort()[::-1][:40] if texts[i] != passage]
        yield {
            "id": f"{package}-{number}",
            "site": package,
            "question": question,
            "heading": heading,
            "answer": passage,
            "rivals": list(dict.fromkeys(rivals))[:_RIVALS],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Collect questions of documentation.")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as spare,
        lzma.open(given.out, "wt", encoding="utf-8") as stream,
    ):
        for package in PACKAGES:
            folder = Path(spare) / package
            folder.mkdir()
            subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
            for file in folder.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(file), str(folder / "all")], check=True)
            rows = list(cases_of(package, folder / "all"))
            stream.writelines(json.dumps(row) + "\n" for row in rows)
            print(package, len(rows), flush=True)


if __name__ == "__main__":
    main()
