#!/usr/bin/env python3
"""C++ of a page of the documentation, as a source that compiles if the page is right.

  extract.py PAGE SOURCE            writes the ```cpp blocks of PAGE to SOURCE
  extract.py --count PAGE…          says how many blocks there are and which are not compiled
  extract.py --check PAGE PROGRAM   runs the program of SOURCE and compares what it prints with what PAGE shows

Blocks are compiled after `#include "starling/starling.h"` and their own includes, with `namespace sl = starling` and
all of namespace starling visible. Functions that a block defines are seen by the blocks after it; everything else in it
is the body of a function of its own. What a block takes for granted is declared in a comment before it, which readers
do not see:

  <!-- compile: sl::Tensor x, y; -->

and `<!-- compile: no (why) -->` leaves a block out. A block after `<!-- prints -->` is what the C++ before it prints;
SOURCE of a page with such blocks has a main function that runs the C++ before them.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

import blocks

PRINTS = re.compile(r"<!-- prints -->\s*\Z")
MARK = "@@ line "  # before what a block prints
FUNCTION = re.compile(r"(?!(?:if|for|while|switch|return|else|do|try)\b)[\w:<>,&* ]+[ &*]\w+\(.*\)(?: const)? \{$")
OTHER_NAMES = {"c++", "C++", "cc", "cxx", "CPP", "Cpp"}


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line of code, from 1
    code: list[str]
    given: str
    left_out: str  # why it is not compiled; "": it is
    prints: list[str] | None = None  # lines that the page shows as its output


def read_blocks(page: pathlib.Path) -> list[Block]:
    """The blocks of C++ of a page."""
    made = []
    for block in blocks.read_blocks(page):
        if block.language in OTHER_NAMES:
            sys.exit(f"{page}:{block.line - 1}: expected ```cpp, got ```{block.language}")
        if block.language == "cpp":
            given = block.said("compile")
            made.append(Block(page, block.line, block.lines, given, blocks.left_out(given)))
        elif PRINTS.search(block.before):
            if not made or made[-1].left_out or made[-1].prints is not None:
                sys.exit(f"{page}:{block.line - 1}: expected compiled C++ before what it prints")
            made[-1].prints = block.lines
    return made


def pieces(block: Block) -> tuple[list[str], list[str], list[str]]:
    """Includes, functions and statements. Lines that belong elsewhere are empty, so that all keep their numbers."""
    includes, functions, body = [], [""] * len(block.code), [""] * len(block.code)
    inside = False
    for i, line in enumerate(block.code):
        if line.startswith("#include"):
            includes.append(line)
            continue
        inside = inside or bool(FUNCTION.match(line))
        (functions if inside else body)[i] = line
        if line == "}":
            inside = False
    return includes, functions, body


def source(page: pathlib.Path) -> str:
    compiled = [b for b in read_blocks(page) if not b.left_out]
    if not compiled:
        return f"// {page.name} shows no C++.\n"
    includes, out = ['#include "starling/starling.h"'], []
    for number, block in enumerate(compiled, 1):
        own, functions, body = pieces(block)
        includes += [line for line in own if line not in includes]
        at = f'#line {block.line} "{page}"'
        if any(functions):
            out += [at, *functions]
        if any(body):
            out += [f"void block_{number}() {{", block.given, "{", at, *body, "}", "}"]
    if shown := [(number, block.line) for number, block in enumerate(compiled, 1) if block.prints is not None]:
        includes += [line for line in ["#include <iostream>"] if line not in includes]
        out += ["void print_all() {"]
        for number, line in shown:
            out += [f'std::cout << "{MARK}{line}" << std::endl;', f"block_{number}();"]
        out += ["}"]
    name = re.sub(r"\W", "_", page.stem)
    head = [*includes, "", "namespace sl = starling;", f"namespace page_{name} {{", "using namespace starling;"]
    tail = [f"}}  // namespace page_{name}", *([f"int main() {{ page_{name}::print_all(); }}"] if shown else []), ""]
    return "\n".join([*head, *out, *tail])


def check(page: pathlib.Path, program: str) -> None:
    """Ends with an error unless the program prints what the page shows, block by block."""
    printed = subprocess.run([program], capture_output=True, text=True, encoding="utf-8", check=True).stdout
    parts = {}
    for part in printed.split(MARK)[1:]:
        line, _, text = part.partition("\n")
        parts[int(line)] = [row.rstrip() for row in text.rstrip("\n").split("\n")]
    shown = [block for block in read_blocks(page) if block.prints is not None]
    for block in shown:
        if parts.get(block.line) != [row.rstrip() for row in block.prints]:
            sys.exit("\n".join([f"{page}:{block.line}: this prints", *parts.get(block.line, ["(nothing)"]),
                               "but the page shows", *block.prints]))
    if not shown:
        sys.exit(f"{page}: expected blocks after <!-- prints -->, got none")
    print(f"{page.name}: {len(shown)} blocks print what the page shows")


def count(pages: list[pathlib.Path]) -> None:
    all_blocks = [block for page in pages for block in read_blocks(page)]
    left_out = [block for block in all_blocks if block.left_out]
    for block in left_out:
        print(f"{block.page}:{block.line}: not compiled: {block.left_out}")
    print(f"{len(pages)} pages, {len(all_blocks)} blocks of C++, {len(left_out)} of them not compiled")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--count"]:
        count([pathlib.Path(a) for a in arguments[1:]])
    elif arguments[:1] == ["--check"] and len(arguments) == 3:
        check(pathlib.Path(arguments[1]), arguments[2])
    elif len(arguments) == 2:
        pathlib.Path(arguments[1]).write_text(source(pathlib.Path(arguments[0])), encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
