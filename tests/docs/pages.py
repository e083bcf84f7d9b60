"""The guide's pages as tests read them: code blocks, commands, links."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted([PROJECT / "README.md", PROJECT / "docker" / "README.md", *DOCS.rglob("*.md")])

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")
# Words that end a command and begin another.
BETWEEN = {"&&", "||", ";", "|", "&"}


class Block(NamedTuple):
    """A block of code."""

    page: Path
    language: str
    code: str


def blocks(page: Path, language: str) -> list[Block]:
    """The page's blocks in a language."""
    return [
        Block(page, found[2], re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE))
        for found in FENCE.finditer(page.read_text())
        if found[2] == language
    ]


def name(page: Path) -> str:
    """The page's path, for people."""
    return str(page.relative_to(PROJECT))


def links(page: Path) -> list[str]:
    """Where the page's links and pictures lead, outside of code."""
    return LINK.findall(FENCE.sub("", page.read_text()))


def commands(block: Block) -> Iterator[list[str]]:
    """The simple commands of a block of bash, each as its words."""
    for line in block.code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in lexer:
            if word in BETWEEN:
                yield from [command] if command else []
                command = []
            else:
                command.append(word)
        yield from [command] if command else []
