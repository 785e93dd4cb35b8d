"""The one reader of code blocks in a page: what stands between ``` and ```, and what the page says about it.

A comment right before a block, which readers do not see, says more about it: <!-- run: no (why) -->. Its first word is
the name of the tool that it is meant for.
"""

import dataclasses
import pathlib
import re
import sys

FENCE = re.compile(r"^```(\S*)\s*$")
COMMENTS = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)+\Z", re.S)
LEFT_OUT = re.compile(r"no \((.+)\)\Z", re.S)


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line of text, from 1
    language: str
    lines: list[str]
    before: str  # the page between the block before it and this one

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, ""])

    def said(self, tool: str) -> str:
        """What the last of the comments right before the block that are meant for `tool` says; "": there is none."""
        comments = COMMENTS.search(self.before)
        meant = re.findall(rf"<!--\s*{tool}:(.*?)-->", comments[0], re.S) if comments else []
        return meant[-1].strip() if meant else ""


def left_out(said: str) -> str:
    """Why a comment leaves a block out; "": it does not."""
    match = LEFT_OUT.match(said)
    return match[1] if match else ""


def read_blocks(page: pathlib.Path) -> list[Block]:
    lines = page.read_text(encoding="utf-8").split("\n")
    blocks, i, before = [], 0, 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        i += 1
        if not fence:
            continue
        end = next((j for j in range(i, len(lines)) if lines[j].rstrip() == "```"), None)
        if end is None:
            sys.exit(f"{page}:{i}: this block does not end")
        blocks.append(Block(page, i + 1, fence[1], lines[i:end], "\n".join(lines[before : i - 1])))
        i = before = end + 1
    return blocks
