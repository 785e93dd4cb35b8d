#!/usr/bin/env python3
"""Runs the commands of a page of the documentation, from an empty folder and with nothing but the page's own text.

  run_page.py PAGE PROGRAM    PROGRAM is the `starling` that the commands find on PATH

Every ```sh block is run by bash, block after block in one temporary folder; the first command that fails ends the run
and names its block. Blocks of other languages are read only. A comment right before a block, which readers do not see,
says more about it:

  <!-- run: no (why) -->      leaves an sh block out
  <!-- run: file NAME -->     writes the block, of any language, to the file NAME, as the page asks the reader to
  <!-- run: fails -->         the sh block is expected to end with an error of a command: 1 to 125, which leaves out
                              commands that are not found and those that a signal kills
  <!-- run: shows -->         the block is what the sh block before it printed: each of its lines has to be there, in
                              this order; … stands for any text, and blanks count as one
  <!-- run: setup COMMANDS --> runs COMMANDS first, for what the page takes for granted
  <!-- run: this page -->     anywhere: the page takes part in the tests
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from blocks import Block, left_out, read_blocks

MOST_SECONDS = 300  # of one block


def missing_line(shown: str, printed: str) -> str:
    """The first line of `shown` that is not in `printed`, after the lines before it; "": all are."""
    at = 0
    printed = re.sub(r"[ \t]+", " ", printed.replace("\r", "\n"))
    for line in shown.split("\n"):
        words = re.sub(r"[ \t]+", " ", line.strip())
        if not words or words == "…":
            continue
        found = re.compile(r"[^\n]*?".join(re.escape(part) for part in words.split("…"))).search(printed, at)
        if not found:
            return line
        at = found.end()
    return ""


class Page:
    """One run: the folder, the environment, and what the last block printed."""

    def __init__(self, page: pathlib.Path, program: pathlib.Path, folder: pathlib.Path):
        self.page, self.folder, self.printed = page, folder, ""
        path = f"{program.resolve().parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self.environment = {**os.environ, "PATH": path, "HOME": str(folder)}

    def refuse(self, block: Block, why: str) -> None:
        sys.exit(f"{self.page}:{block.line}: {why}\n--- the last block printed:\n{self.printed}")

    def shell(self, text: str) -> int:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace", timeout=MOST_SECONDS, check=False)
        self.printed = done.stdout
        return done.returncode

    def run(self, block: Block) -> None:
        said = block.said("run")
        kind, _, rest = said.partition(" ")
        if left_out(said):
            return
        if kind == "file":
            file = self.folder / rest
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif kind == "shows":
            if line := missing_line(block.text, self.printed):
                self.refuse(block, f"expected to be shown: {line}")
        elif block.language == "sh":
            self.run_commands(block, kind, rest)
        elif kind:
            self.refuse(block, f"expected file or shows before a block that is not sh, got '{said}'")

    def run_commands(self, block: Block, kind: str, rest: str) -> None:
        if kind not in ("", "fails", "setup"):
            self.refuse(block, f"expected no (why), file, fails, shows or setup, got '{kind}'")
        if kind == "setup" and (code := self.shell(rest)) != 0:
            self.refuse(block, f"its setup ended with {code}")
        code = self.shell(block.text)
        if not (1 <= code <= 125 if kind == "fails" else code == 0):
            self.refuse(block, f"expected {'an error' if kind == 'fails' else 'no error'}, got exit status {code}")


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        sys.exit(__doc__)
    page, program = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    blocks = read_blocks(page)
    with tempfile.TemporaryDirectory(prefix="starling-page-") as folder:
        run = Page(page, program, pathlib.Path(folder))
        for block in blocks:
            run.run(block)
    print(f"{page}: {sum(block.language == 'sh' for block in blocks)} blocks of commands ran as they stand")


if __name__ == "__main__":
    main(sys.argv[1:])
