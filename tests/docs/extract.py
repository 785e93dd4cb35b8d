#!/usr/bin/env python3
"""C++ of a page of the documentation, as a source that compiles and runs if the page is right.

  extract.py PAGE SOURCE            writes the ```cpp blocks of PAGE to SOURCE
  extract.py --main SOURCE PAGE…    writes the main function of a program of the sources of all pages
  extract.py --count PAGE…          says how many blocks there are and which are not compiled, or not run
  extract.py --check PAGE PROGRAM   runs the blocks of PAGE by that program, from an empty folder, and compares what they
                                    print with what PAGE shows

Blocks are compiled after `#include "starling/starling.h"` and their own includes, with `namespace sl = starling` and
all of namespace starling visible. Functions that a block defines are seen by the blocks after it; everything else in it
is the body of a function of its own. What a block takes for granted is declared in a comment before it, which readers
do not see:

  <!-- compile: sl::Tensor x, y; -->

It is run with that: one block after the other, functions named main too. `<!-- compile: only (why) sl::Tensor x; -->`
says why a block is compiled but not run, `<!-- compile: no (why) -->` leaves it out. `<!-- ranks: 2 -->` runs it on so
many ranks that are threads, each with its communicator `comm`. A block after `<!-- prints -->` is what the C++ before it
prints, where … stands for any number of lines.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

import blocks

PRINTS = re.compile(r"<!-- prints -->\s*\Z")
MARK = "@@ line "  # before what a block prints
MAIN = re.compile(r"int main\(\) \{$")
FUNCTION = re.compile(r"(?!(?:if|for|while|switch|return|else|do|try)\b)[\w:<>,&* ]+[ &*]\w+\(.*\)(?: const)? \{$")
ONLY = re.compile(r"only \((.+?)\)(.*)\Z", re.S)
OTHER_NAMES = {"c++", "C++", "cc", "cxx", "CPP", "Cpp"}


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line of code, from 1
    code: list[str]
    given: str
    left_out: str  # why it is not compiled; "": it is
    not_run: str = ""  # why it is not run; "": it is, if it is compiled
    ranks: int = 0  # that run it; 0: it is run by one that knows nothing of ranks
    prints: list[str] | None = None  # lines that the page shows as its output


def read_blocks(page: pathlib.Path) -> list[Block]:
    """The blocks of C++ of a page."""
    made = []
    for block in blocks.read_blocks(page):
        if block.language in OTHER_NAMES:
            sys.exit(f"{page}:{block.line - 1}: expected ```cpp, got ```{block.language}")
        if block.language == "cpp":
            given = block.said("compile")
            only = ONLY.match(given)
            made.append(Block(page, block.line, block.lines, only[2].strip() if only else given, blocks.left_out(given),
                              only[1] if only else "", int(block.said("ranks") or 0)))
        elif PRINTS.search(block.before):
            if not made or made[-1].left_out or made[-1].not_run or made[-1].prints is not None:
                sys.exit(f"{page}:{block.line - 1}: expected C++ that runs before what it prints")
            made[-1].prints = block.lines
    return made


def pieces(block: Block) -> tuple[list[str], list[str], list[str]]:
    """Includes, functions and statements. Lines that belong elsewhere are empty, so that all keep their numbers."""
    includes, functions, body = [], [""] * len(block.code), [""] * len(block.code)
    inside, ends = False, "}"
    for i, line in enumerate(block.code):
        if line.startswith("#include"):
            includes.append(line)
            continue
        if not inside and FUNCTION.match(line):
            inside, ends = True, "return 0; }" if MAIN.match(line) else "}"
        (functions if inside else body)[i] = ends if inside and line == "}" else line
        if line == "}":
            inside = False
    return includes, functions, body


def function_of(block: Block, number: int, body: list[str]) -> list[str]:
    """The function that runs the statements of a block."""
    begin, end = [f"void block_{number}() {{", "{"], ["}", "}"]
    if block.ranks:
        begin = [f"void block_{number}() {{", f"auto all_ranks = make_thread_comms({block.ranks});",
                 "run_ranks(all_ranks, [&](Comm& own) {", "const std::shared_ptr<Comm> comm(&own, [](Comm*) {});"]
        end = ["});", "}"]
    # What follows is a scope of its own: a page may name a thing as what it is given.
    return [*begin, block.given, "{", f'#line {block.line} "{block.page}"', *body, "}", *end]


def page_name(page: pathlib.Path) -> str:
    return "page_" + re.sub(r"\W", "_", page.stem)


def main_source(pages: list[pathlib.Path]) -> str:
    names = [page_name(page) for page in pages if any(not block.left_out for block in read_blocks(page))]
    return "\n".join(["// Runs the C++ of a page.", "#include <string_view>", "",
                      *[f"namespace {name} {{ void run_all(); }}" for name in names], "",
                      "int main(int count, char** words) {", '  const std::string_view page = count > 1 ? words[1] : "";',
                      *[f'  if (page == "{name}") return {name}::run_all(), 0;' for name in names], "  return 2;", "}", ""])


def source(page: pathlib.Path) -> str:
    compiled = [b for b in read_blocks(page) if not b.left_out]
    if not compiled:
        return f"// {page.name} shows no C++.\n"
    includes, out, run = ['#include "starling/starling.h"', "#include <iostream>"], [], []
    if any(block.ranks for block in compiled):
        includes.append('#include "starling/training.h"')
    for number, block in enumerate(compiled, 1):
        own, functions, body = pieces(block)
        includes += [line for line in own if line not in includes]
        at = f'#line {block.line} "{page}"'
        if any(functions):
            out += [at, *functions]
        if any(body):
            out += function_of(block, number, body)
        if not block.not_run:
            run.append(f'std::cout << "{MARK}{block.line}" << std::endl;')
            run += [f"block_{number}();"] if any(body) else []
            run += ["main();"] if any(MAIN.match(line) for line in functions) else []
    name = page_name(page)
    head = [*includes, "", "namespace sl = starling;", f"namespace {name} {{", "using namespace starling;"]
    return "\n".join([*head, *out, "void run_all() {", *run, "}", f"}}  // namespace {name}", ""])


def check(page: pathlib.Path, program: str) -> None:
    """Ends with an error unless every block runs to its end and prints what the page shows."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([pathlib.Path(program).resolve(), page_name(page)], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
    parts = {}
    for part in done.stdout.split(MARK)[1:]:
        line, _, text = part.partition("\n")
        parts[int(line)] = [row.rstrip() for row in text.rstrip("\n").split("\n")]
    if done.returncode != 0:
        sys.exit(f"{page}:{list(parts or [1])[-1]}: this ends with {done.returncode}: {done.stderr}")
    run = [block for block in read_blocks(page) if not block.left_out and not block.not_run]
    for block in run:
        printed = parts.get(block.line, ["(nothing)"])
        if block.prints is not None and not shows([row.rstrip() for row in block.prints], printed):
            sys.exit("\n".join([f"{page}:{block.line}: this prints", *printed, "but the page shows", *block.prints]))
    print(f"{page.name}: {len(run)} blocks run, {sum(b.prints is not None for b in run)} print what the page shows")


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are those printed, where a line … stands for any number of them."""
    whole = r"(?:.*\n)*".join(re.escape("".join(row + "\n" for row in part)) for part in parted(shown))
    return re.fullmatch(whole, "".join(row + "\n" for row in printed)) is not None


def parted(rows: list[str]) -> list[list[str]]:
    """The rows between those that are …"""
    parts = [[]]
    for row in rows:
        parts += [[]] if row == "…" else []
        if row != "…":
            parts[-1].append(row)
    return parts


def count(pages: list[pathlib.Path]) -> None:
    all_blocks = [block for page in pages for block in read_blocks(page)]
    left_out = [block for block in all_blocks if block.left_out]
    not_run = [block for block in all_blocks if block.not_run]
    for block in left_out:
        print(f"{block.page}:{block.line}: not compiled: {block.left_out}")
    for block in not_run:
        print(f"{block.page}:{block.line}: not run: {block.not_run}")
    print(f"{len(pages)} pages, {len(all_blocks)} blocks of C++, {len(left_out)} of them not compiled, {len(not_run)} not run")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--count"]:
        count([pathlib.Path(a) for a in arguments[1:]])
    elif arguments[:1] == ["--main"] and len(arguments) > 2:
        pathlib.Path(arguments[1]).write_text(main_source([pathlib.Path(a) for a in arguments[2:]]), encoding="utf-8")
    elif arguments[:1] == ["--check"] and len(arguments) == 3:
        check(pathlib.Path(arguments[1]), arguments[2])
    elif len(arguments) == 2:
        pathlib.Path(arguments[1]).write_text(source(pathlib.Path(arguments[0])), encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
