#!/usr/bin/env python3
"""Follows every relative link of the documents under version control, anchors included; names those that lead nowhere.

A path in backticks that names a source file of the tree (`host/protocol/src/lib.rs`) counts as a link in ARCHITECTURE.md,
CONTRIBUTING.md and docs/internals, which tell people which file to open.
"""
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]\n]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
CODE_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?)`")
TOP = {"host", "specs", "research", "bench", "guests", "sdk", "wit", "docs", "scripts", ".ci", ".cargo"}


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def without_code(text: str) -> str:
    """Blanks out fenced blocks, keeping the line numbers."""
    return re.sub(r"^(```|~~~).*?^\1", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, by GitHub's rule."""
    found: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", without_code(path.read_text()), flags=re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        seen = found.get(slug, 0)
        found[slug] = seen + 1
        result.add(f"{slug}-{seen}" if seen else slug)
    return result | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", path.read_text()))


def check(document: Path) -> list[str]:
    faults = []
    name = document.relative_to(ROOT)
    names_files = str(name) in {"ARCHITECTURE.md", "CONTRIBUTING.md"} or str(name).startswith("docs/internals")
    for number, line in enumerate(without_code(document.read_text()).splitlines(), 1):
        for link in LINK.findall(line):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (document.parent / unquote(path)).resolve() if path else document
            if not target.exists():
                faults.append(f"{name}:{number}: {link} does not exist")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                faults.append(f"{name}:{number}: {link}: no such heading")
        for path in CODE_PATH.findall(line) if names_files else []:
            if path.split("/")[0] in TOP and not (ROOT / path).exists():
                faults.append(f"{name}:{number}: `{path}` does not exist")
    return faults


def main() -> int:
    checked = documents()
    faults = [fault for document in checked for fault in check(document)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(checked)} documents: {len(faults) or 'no'} broken links" + ("" if faults else "; all lead somewhere"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
