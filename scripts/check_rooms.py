#!/usr/bin/env python3
"""Checks the order of the house.

Rules, each printed with file, line and name:
  include-order    a room includes itself and the rooms that the table in src/starling/README.md lets it include
  optional-part    conditionals on, and headers of, an optional part (CUDA, MPI, ...) stay in the folder of that part
  room-paragraph   every room has a row in that table and a paragraph "**room**" beneath it
  long-file        a file over 500 lines has more than one subject (a warning, not a failure)
"""

import argparse
import dataclasses
import pathlib
import re
import sys

SOURCES = {".h", ".cpp", ".cu", ".cuh"}
FOLDERS = ("src", "tests", "bench", "examples")
LONG = 500

# Folder of an optional part: how the words of its macros begin, and how its headers' names begin.
OPTIONAL_PARTS = {
    "cuda": (("CUDA", "NVCC", "CUDNN", "CUBLAS", "NVRTC"), ("cuda", "cublas", "cudnn", "nvrtc", "cooperative_groups")),
    "mpi": (("MPI", "OMPI"), ("mpi",)),
    "nccl": (("NCCL",), ("nccl",)),
    "gloo": (("GLOO",), ("gloo/",)),
    "zmq": (("ZMQ",), ("zmq",)),
    "grpc": (("GRPC",), ("grpc",)),
    "protobuf": (("PROTOBUF",), ("google/protobuf",)),
    "jpeg": (("JPEG",), ("jpeglib",)),
    "png": (("PNG",), ("png.h",)),
}

INCLUDE_ROOM = re.compile(r'\s*#\s*include\s+["<]starling/([^">]+)[">]')
INCLUDE_SYSTEM = re.compile(r"\s*#\s*include\s+<([^>]+)>")
CONDITIONAL = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
TABLE_ROW = re.compile(r"\|([^|]+)\|[^|]*\|([^|]+)\|\s*$")


@dataclasses.dataclass(frozen=True)
class Finding:
    file: pathlib.Path
    line: int
    rule: str
    text: str

    def is_warning(self) -> bool:
        return self.rule == "long-file"

    def __str__(self) -> str:
        kind = "warning" if self.is_warning() else "error"
        return f"{self.file}:{self.line}: {kind} [{self.rule}] {self.text}"


def names(cell: str) -> list[str]:
    return re.findall(r"[a-z_]+", cell.replace("–", ""))


def read_table(readme: str) -> dict[str, set[str]]:
    """Room to all the rooms it may include, itself among them: what its row names and what those may include in turn;
    "all above" stands for every earlier row."""
    allowed: dict[str, set[str]] = {}
    for line in readme.splitlines():
        row = TABLE_ROW.match(line)
        if not row or names(row[1])[:1] in ([], ["room"]):
            continue
        cell = row[2].strip()
        direct = list(allowed) if cell == "all above" else names(cell)
        reach = {room for name in direct for room in allowed.get(name, {name})}
        allowed |= {room: reach | {room} for room in names(row[1])}
    return allowed


def logical_lines(text: str):
    """(line number, line) with continued lines joined and comments blanked, so that a directive is one line."""
    text = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    start, parts = 1, []
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            start = number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield start, " ".join([*parts, line])
        parts = []


def check_include(file: pathlib.Path, line: int, text: str, room: str | None, allowed: dict[str, set[str]]):
    match = INCLUDE_ROOM.match(text)
    if not match or room not in allowed:
        return
    target, slash, _ = match[1].partition("/")
    if not slash:
        if len(allowed[room]) < len(allowed):
            yield Finding(file, line, "include-order", f"{room} may not include the door starling/{target}")
    elif target not in allowed[room]:
        may = ", ".join(sorted(allowed[room] - {room})) or "no other room"
        yield Finding(file, line, "include-order", f"{room} may not include {target}; it may include {may}")


def check_optional(file: pathlib.Path, line: int, text: str):
    conditional, header = CONDITIONAL.match(text), INCLUDE_SYSTEM.match(text)
    words = [word for name in re.findall(r"\w+", conditional[1] if conditional else "") for word in name.split("_")]
    for part, (macros, headers) in OPTIONAL_PARTS.items():
        # A file beside the folder that stands in for it, no_cuda.cpp, is part of the seam too.
        if part in file.parts or file.stem == f"no_{part}":
            continue
        if any(word.startswith(macros) for word in words):
            yield Finding(file, line, "optional-part", f"a conditional on {part} belongs into a folder {part}/")
        if header and header[1].startswith(headers):
            yield Finding(file, line, "optional-part", f"<{header[1]}> belongs into a folder {part}/")


def room_of(file: pathlib.Path) -> str | None:
    """The room of src/starling/<room>/...; None for the door beside the rooms and for files elsewhere."""
    return file.parts[2] if file.parts[:2] == ("src", "starling") and len(file.parts) > 3 else None


def check_file(source: pathlib.Path, tree: pathlib.Path, allowed: dict[str, set[str]]):
    file = source.relative_to(tree)
    room = room_of(file)
    text = source.read_text(encoding="utf-8")
    for line, content in logical_lines(text):
        if content.lstrip().startswith("#"):
            yield from check_include(file, line, content, room, allowed)
            yield from check_optional(file, line, content)
    if text.count("\n") > LONG:
        yield Finding(file, LONG + 1, "long-file", f"{text.count(chr(10))} lines: does it still have one subject?")


def check_paragraphs(tree: pathlib.Path, readme: str, allowed: dict[str, set[str]]):
    house = tree / "src" / "starling"
    where = (house / "README.md").relative_to(tree)
    for room in sorted(entry.name for entry in house.iterdir() if entry.is_dir()):
        if not any(path.suffix in SOURCES for path in (house / room).rglob("*")):
            continue
        if room not in allowed:
            yield Finding(where, 1, "room-paragraph", f"no row for the room {room} in the table of rooms")
        if not re.search(rf"^\*\*{room}\*\*", readme, flags=re.M):
            yield Finding(where, 1, "room-paragraph", f'no paragraph that begins with "**{room}**"')


def check_tree(tree: pathlib.Path) -> list[Finding]:
    path = tree / "src" / "starling" / "README.md"
    readme = path.read_text(encoding="utf-8") if path.exists() else ""
    allowed = read_table(readme)
    findings = list(check_paragraphs(tree, readme, allowed))
    for folder in FOLDERS:
        for source in sorted(path for path in (tree / folder).rglob("*") if path.suffix in SOURCES):
            findings += check_file(source, tree, allowed)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("tree", nargs="?", type=pathlib.Path, default=here, help="the tree to check (default: this one)")
    findings = check_tree(parser.parse_args().tree)
    for finding in findings:
        print(finding)
    errors = sum(not finding.is_warning() for finding in findings)
    print(f"rooms: {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
