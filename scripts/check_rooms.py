#!/usr/bin/env python3
"""Checks the order of the house.

Rules, each printed with file, line and name:
  include-order    a room includes itself and the rooms that the table in src/starling/README.md lets it include
  optional-part    conditionals on, and headers of, an optional part (CUDA, MPI, ...) stay in the folder of that part
  room-paragraph   every room has a row in that table and a paragraph "**room**" beneath it
  shelf-paragraph  every shelf, a folder in a room, is named in that paragraph; folders of optional parts, of families and
                   those beside a file of their name, whose helpers they hold, need no word
  op-table         what is true of an op stands in its definition: no lists of three op names and more, no entries for them
                   one by one (table["relu"] = …) and no comparisons of a name with several (== "a" || … == "b"), outside
                   ops/ and the folders of kernels (families, blocks), which are found by name; a file whose list says
                   nothing of ops, or only which ones it matches, is named in NO_TABLES with the reason
  family-stem      kernels stand in files of the name of the family in ops/families that defines their ops, so that a family
                   is found in every room by one name; ops that a file registers by name are looked up where they are defined
  second-definition  a type is defined twice in one namespace, which no linker notices
  door             starling.h and training.h, with all that their headers include, show users no header of kernels, and in
                   the plain namespace starling no attributes of ops (…Attrs) and no gradients of them (…_backward)
  pronoun          a comment begins with the thing that it describes, not with What, Who, This, Those, Its, Nobody and the
                   like: a stranger does not know what they stand for; in headers not with Both, Same, As above, Has, Of or
                   Each returns either, and there none says nobody, somebody or whoever. The same holds for the names of
                   tests, and for comments at the end of a line
  stale-errno      `check` evaluates its arguments in any order: errno beside a condition that makes the call may be read before it
  long-readme      README.md has at most 150 lines: the rest is for docs/
  long-file        a file over 500 lines has more than one subject (a warning, not a failure)
"""

import argparse
import dataclasses
import pathlib
import re
import sys

HEADERS = {".h", ".cuh"}
SOURCES = {".cpp", ".cu", *HEADERS}
FOLDERS = ("src", "tests", "bench", "examples")
LONG = 500
LONG_README = 150
TABLE = 3  # as many names of ops in one initialiser, and more of them than of other words, are a table; as are so many entries
# Lists that say nothing of ops, or only which ones a rewrite matches.
NO_TABLES = {
    "src/starling/dist/comm/call.cpp": "names of the calls of the comm interface",
    "src/starling/graph/passes/epilogues.cpp": "the activations that the pass matches: those that matmul_act and matmul_sgd take",
    "src/starling/graph/passes/partition/window_pools.cpp": "the pools that it matches, each by the function that cuts its rows",
    "src/starling/kernels/cpu/fused/fused_run.cpp": "the steps that this kernel has code for",
    "src/starling/nn/declared.cpp": "kinds of layers",
    "src/starling/nn/transformer.cpp": "names of modules",
    "src/starling/runtime/memory/alias_check.cpp": "kinds of addresses",
    "src/starling/runtime/profile/explain.cpp": "kinds of addresses",
    "src/starling/train/sweep/sweep_job.cpp": "keys of a range in a sweep",
}

# Folders with kernels of the families of ops.
FAMILY_FOLDERS = ("kernels/*/families", "dist/families", "train/families")
# Files there that are of no one family.
NO_FAMILIES = {
    "elementwise": "one kernel for the ops of all elementwise families",
    "view_ops": "one kernel for the view ops of all families",
}

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
    "hdf5": (("HDF5", "H5"), ("hdf5", "H5")),
}

INCLUDE_ROOM = re.compile(r'\s*#\s*include\s+["<]starling/([^">]+)[">]')
INCLUDE_SYSTEM = re.compile(r"\s*#\s*include\s+<([^>]+)>")
CONDITIONAL = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
# How ops/families/*.cpp and ops/updates/*.h name an op: in a definition, in a call of a helper that makes one, and where it is looked up.
OP_NAME = re.compile(r'(?:\.name|\bkName)\s*=\s*"(\w+)"|\b\w+\(\s*"(\w+)"\s*,\s*"[^"]|\bnamed_op<"(\w+)">|\bfind_op\("(\w+)"\)')
# How a family names the op it defines: in the definition, or before the sentence about it in a call of a helper.
DEFINED_OP = re.compile(r'\.name\s*=\s*"(\w+)"|[({,]\s*"(\w+)"\s*,\s*"(?!\[)[^"\n]*\s[^"\n]*"')
REGISTRATION = re.compile(r"^void register_\w+\(.*?^\}", flags=re.S | re.M)
# An op that a kernel is registered for; a kernel begins with its own name and what it accepts.
REGISTERED_OP = re.compile(r'(?:[(,]|\{(?!\s*"\w+"\s*,\s*(?:kernels::)?Accepts))\s*"(\w+)"')
# An entry under the name of an op: table["relu"] = …, table.emplace("relu", …), table.insert({"relu", …}).
TABLE_ENTRY = re.compile(r'\[\s*"(\w+)"\s*\]\s*=(?!=)|[.>](?:try_)?(?:emplace|insert|insert_or_assign|add)\(\s*\{?\s*"(\w+)"')
# A name compared with several: name == "a" || name == "b".
COMPARED = re.compile(r'[!=]=\s*"\w+"(?:\s*(?:\|\||&&)[^;{}"]*?[!=]=\s*"\w+")+')
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


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def logical_lines(text: str):
    """(line number, line) with continued lines joined and comments blanked, so that a directive is one line."""
    text = without_comments(text)
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


def read_op_names(tree: pathlib.Path) -> set[str]:
    ops = tree / "src" / "starling" / "ops"
    definitions = sorted([*ops.glob("families/*.cpp"), *ops.glob("updates/*.h")])
    found = (OP_NAME.findall(path.read_text(encoding="utf-8")) for path in definitions)
    return {name for matches in found for groups in matches for name in groups if name}


def initialisers(text: str):
    """(start, end) of every outermost pair of braces without a statement in it: lists, not blocks."""
    starts: list[int] = []
    found: list[tuple[int, int]] = []
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[{};]', text):
        if match[0] == "{":
            starts.append(match.start())
        elif match[0] == ";":
            starts = [-1] * len(starts)  # the braces that are open hold statements
        elif match[0] == "}" and starts:
            start = starts.pop()
            if start >= 0:
                found = [pair for pair in found if pair[0] < start] + [(start, match.end())]
    return found


def check_op_table(file: pathlib.Path, text: str, ops: set[str]):
    parts = file.parts[2:]
    by_name = "families" in parts or (parts[:1] == ("kernels",) and "blocks" in parts)
    if file.parts[:2] != ("src", "starling") or parts[0] == "ops" or by_name or file.as_posix() in NO_TABLES:
        return
    text = without_comments(text)
    for start, end in initialisers(text):
        words = re.findall(r'"([^"]*)"', text[start:end])
        named = [word for word in words if word in ops]
        if len(set(named)) >= TABLE and 2 * len(named) > len(words):
            line = text.count("\n", 0, start) + 1
            shown = ", ".join(named[:3])
            yield Finding(file, line, "op-table", f"a list of {len(named)} ops ({shown}, ...): make it a field of OpDef")
    entries = [(match.start(), match[1] or match[2]) for match in TABLE_ENTRY.finditer(text)]
    named = {name: at for at, name in reversed(entries) if name in ops}
    if len(named) >= TABLE:
        line = text.count("\n", 0, min(named.values())) + 1
        shown = ", ".join(sorted(named, key=named.get)[:3])
        yield Finding(file, line, "op-table", f"entries for {len(named)} ops ({shown}, ...): a file for each, found by its name")
    for match in COMPARED.finditer(text):
        named = [word for word in re.findall(r'"(\w+)"', match[0]) if word in ops]
        if len(set(named)) > 1:
            line = text.count("\n", 0, match.start()) + 1
            shown = " and ".join(named[:2])
            yield Finding(file, line, "op-table", f"a name compared with those of {len(named)} ops ({shown}): make it a field of OpDef")


def room_of(file: pathlib.Path) -> str | None:
    """The room of src/starling/<room>/...; None for the door beside the rooms and for files elsewhere."""
    return file.parts[2] if file.parts[:2] == ("src", "starling") and len(file.parts) > 3 else None


def check_file(source: pathlib.Path, tree: pathlib.Path, allowed: dict[str, set[str]], ops: set[str]):
    file = source.relative_to(tree)
    room = room_of(file)
    text = source.read_text(encoding="utf-8")
    for line, content in logical_lines(text):
        if content.lstrip().startswith("#"):
            yield from check_include(file, line, content, room, allowed)
            yield from check_optional(file, line, content)
    yield from check_op_table(file, text, ops)
    yield from check_comments(file, text)
    yield from check_errno(file, text)
    if text.count("\n") > LONG:
        yield Finding(file, LONG + 1, "long-file", f"{text.count(chr(10))} lines: does it still have one subject?")


PRONOUN = re.compile(
    r"\s*//\s*(What|Whatever|Who|Whoever|Whose|Whom|This|That|These|Those|It|Its|They|Them|Their|Nobody|Somebody|We|Our)\b"
)
# Words of a comment in a header that lean on the line above it, which a stranger may not have read.
LEANING = re.compile(
    r"\s*//\s*(Both|Same|The same(?= (?:for|of|as|in|with)\b)|Another|Others?|Something|Nothing|Neither|Is|Has|Also|Only|Then|There|Here|As (?:above|before)"
    r"|(?:All|One|Some|Most|Each|Any) of (?:them|these|those|it)|All (?:that|this)|(?:How|Why|Where|When) (?:it|they|this|that)"
    r"|Of|Each(?= (?:is|has|does|may|must|can|gives|takes|returns|throws|makes|means)\b))\b"
)
# Words in a comment of a header that leave open who is meant: a thread, a rank, a client, a caller.
NAMELESS = re.compile(r"\s*(?://|[^\"]*[;{},)]\s*//).*\b([Nn]obody|[Ss]omebody|[Ee]verybody|[Aa]nybody|[Ww]hoever|[Ss]omeone|[Aa]nyone|[Ee]veryone)\b")
TRAILING = re.compile(r".*[;{},)]\s*//\s*(whose|what|who|it|its|this|these|they|them|their|nobody|somebody|we|our)\b")
# "Peers, ThatDie…" is a clause about the suite; "Peers, TheirDeath…" is not.
TEST_NAME = re.compile(
    r"\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*\w+,\s*((?:What|Whatever|Who|Whoever|These|Those|This|It|Its|They|Their|Nobody|Somebody|We|Our)"
    r"[A-Z]\w*)"
)


def check_comments(file: pathlib.Path, text: str):
    before = ""
    for line, content in enumerate(text.split("\n"), 1):
        begins = PRONOUN.match(content) or (file.suffix in HEADERS and file.parts[0] == "src" and LEANING.match(content))
        if begins and not before.startswith("//"):
            yield Finding(file, line, "pronoun", f'a comment that begins with "{begins[1]}": begin with the thing')
        nameless = file.suffix in HEADERS and file.parts[0] == "src" and NAMELESS.match(STRING.sub('""', content))
        if nameless:
            yield Finding(file, line, "pronoun", f'a comment of a header that says "{nameless[1]}": name who is meant')
        trails = file.parts[0] == "src" and TRAILING.match(STRING.sub('""', content))
        if trails:
            yield Finding(file, line, "pronoun", f'a comment that begins with "{trails[1]}": begin with the thing')
        named = TEST_NAME.match(content)
        if named:
            yield Finding(file, line, "pronoun", f"a test named {named[1]}: begin with the thing")
        before = content.lstrip()


CHECK_CALL = re.compile(r"(?<![\w.>:])check\s*\(")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'')
ERRNO = re.compile(r"\b\w*errno(?:_text)?\b")
CALLED = re.compile(r"\b(?!\w*errno\b)(?!sizeof\b)\w+\s*\(")  # a cast, static_cast<bool>(fd), is no call


def arguments(text: str, start: int) -> list[str]:
    """Arguments of the call whose parenthesis opens before `start`, in a text without strings."""
    found, depth, begin = [], 0, start
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and text[at] == ","):
            found.append(text[begin:at])
            begin = at + 1
        if depth < 0:
            break
    return found


def check_errno(file: pathlib.Path, text: str):
    if file.parts[:1] != ("src",):
        return
    text = without_comments(STRING.sub('""', text))
    for call in CHECK_CALL.finditer(text):
        condition, *rest = arguments(text, call.end()) or [""]
        if CALLED.search(condition) and any(ERRNO.search(one) for one in rest):
            line = text.count("\n", 0, call.start()) + 1
            yield Finding(file, line, "stale-errno", "errno may be read before the call beside it is made: call first, then check")


OPEN = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{")
DEFINED = re.compile(r"(?:(?:struct|class|union) (\w+)(?: final)?(?: :(?!:).*)? ?(?:\{|$)|enum(?: class)? (\w+).*\{|using (\w+) = )")


def in_namespaces(text: str):
    """(line, namespace, content) of every line within named namespaces."""
    scopes: list[str] = []
    for line, content in enumerate(text.split("\n"), 1):
        opened = OPEN.match(content)
        if opened and not content.rstrip().endswith("}"):
            scopes.append(opened[1])
        elif re.match(r"\}  // (?:inline )?namespace", content):
            scopes = scopes[:-1]
        elif scopes and all(scopes):
            yield line, "::".join(scopes), content


def definitions(text: str):
    """(line, namespace, name) of every type that a source defines at the left margin of a named namespace."""
    for line, namespace, content in in_namespaces(text):
        if found := DEFINED.match(content):
            yield line, namespace, found[1] or found[2] or found[3]


def check_definitions(tree: pathlib.Path):
    first: dict[tuple[str, str], tuple[pathlib.Path, int, str]] = {}
    for source in sorted(path for path in (tree / "src").rglob("*") if path.suffix in SOURCES):
        file, text = source.relative_to(tree), source.read_text(encoding="utf-8")
        lines = text.split("\n")
        for line, namespace, name in definitions(text):
            known = first.setdefault((namespace, name), (file, line, lines[line - 1]))
            alias = lines[line - 1].startswith("using ") and known[2] == lines[line - 1]
            if known[:2] != (file, line) and known[0] != file and not alias:
                yield Finding(file, line, "second-definition", f"{namespace}::{name} is defined at {known[0]}:{known[1]} too")


def read_families(tree: pathlib.Path) -> dict[str, set[str]]:
    """Family to the ops whose names its file spells out; names that are put together there are not known."""
    files = sorted((tree / "src" / "starling" / "ops" / "families").glob("*.cpp"))
    found = {path.stem: DEFINED_OP.findall(without_comments(path.read_text(encoding="utf-8"))) for path in files}
    return {family: {name or before for name, before in matches} for family, matches in found.items()}


def registered_ops(text: str):
    """(line, name) of every quoted word by which a source may register a kernel."""
    text = without_comments(text)
    for body in REGISTRATION.finditer(text):
        for match in REGISTERED_OP.finditer(body[0]):
            yield text.count("\n", 0, body.start() + match.start(1)) + 1, match[1]


def check_families(tree: pathlib.Path):
    house = tree / "src" / "starling"
    families = read_families(tree)
    for folder in FAMILY_FOLDERS:
        for source in sorted(path for path in house.glob(f"{folder}/*") if path.suffix in SOURCES):
            file, stem = source.relative_to(tree), source.stem
            if stem in NO_FAMILIES:
                continue
            if stem not in families:
                missing = f"no family ops/families/{stem}.cpp: name the file after the family that defines its ops"
                yield Finding(file, 1, "family-stem", missing)
                continue
            for line, name in registered_ops(source.read_text(encoding="utf-8")):
                homes = [family for family, ops in families.items() if name in ops]
                if homes and stem not in homes:
                    elsewhere = f"{name} is defined in ops/families/{homes[0]}.cpp: its kernel belongs into a file of that name"
                    yield Finding(file, line, "family-stem", elsewhere)


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


def needs_no_word(shelf: pathlib.Path, room: pathlib.Path) -> bool:
    parts = shelf.relative_to(room).parts
    return shelf.name == "families" or any(part in OPTIONAL_PARTS for part in parts) or shelf.with_suffix(".cpp").exists()


def check_shelves(tree: pathlib.Path, readme: str, allowed: dict[str, set[str]]):
    house = tree / "src" / "starling"
    where = (house / "README.md").relative_to(tree)
    for room in sorted(allowed):
        paragraph = re.search(rf"^\*\*{room}\*\*.*?(?=^\*\*\w+\*\*|\Z)", readme, flags=re.M | re.S)
        for shelf in sorted(path for path in (house / room).rglob("*") if path.is_dir()) if paragraph else ():
            empty = not any(path.suffix in SOURCES for path in shelf.iterdir())
            if empty or needs_no_word(shelf, house / room) or re.search(rf"`(?:\w+/)*{shelf.name}/?`", paragraph[0]):
                continue
            told = shelf.relative_to(house).as_posix()
            yield Finding(where, 1, "shelf-paragraph", f"no word about `{told}` in the paragraph of {room}: what does the shelf hold?")


DOORS = ("starling.h", "training.h")  # for users, beside the rooms
GRADIENT = re.compile(r"[A-Za-z][\w:<>,&* ]*\b(\w+_backward)\(")


def shown_to_users(text: str):
    """(line, name) of attributes and gradients of ops in the plain namespace starling of a header."""
    for line, namespace, name in definitions(text):
        if namespace == "starling" and name.endswith("Attrs") and name != "Attrs":
            yield line, name
    for line, namespace, content in in_namespaces(text):
        if namespace == "starling" and (found := GRADIENT.match(content)):
            yield line, found[1]


def check_door(tree: pathlib.Path):
    """The way from a door to a header that users are not to see, named at the header that leads to it, and the names of
    other headers that are not for users."""
    source = tree / "src"
    door = {f"starling/{name}": name for name in DOORS}  # of every header that is reached, the first door that leads to it
    reached = list(door)
    for name in reached:
        path = source / name
        whole = path.read_text(encoding="utf-8") if path.exists() else ""
        for line, shown in shown_to_users(whole):
            text = f"{door[name]} shows users {shown} in namespace starling: it belongs into starling::op"
            yield Finding(path.relative_to(tree), line, "door", text)
        for line, text in logical_lines(whole):
            match = INCLUDE_ROOM.match(text)
            header = f"starling/{match[1]}" if match else name
            if header.startswith("starling/kernels/"):
                yield Finding(path.relative_to(tree), line, "door", f"{door[name]} shows users {header} through this header")
            elif header not in door:
                door[header] = door[name]
                reached.append(header)


def check_length(tree: pathlib.Path):
    path = tree / "README.md"
    lines = path.read_text(encoding="utf-8").count("\n") if path.exists() else 0
    if lines > LONG_README:
        yield Finding(path.relative_to(tree), LONG_README + 1, "long-readme", f"{lines} lines: docs/ have room for details")


def check_tree(tree: pathlib.Path) -> list[Finding]:
    path = tree / "src" / "starling" / "README.md"
    readme = path.read_text(encoding="utf-8") if path.exists() else ""
    allowed = read_table(readme)
    ops = read_op_names(tree)
    findings = [*check_paragraphs(tree, readme, allowed), *check_definitions(tree), *check_families(tree)]
    findings += [*check_shelves(tree, readme, allowed), *check_door(tree), *check_length(tree)]
    for folder in FOLDERS:
        for source in sorted(path for path in (tree / folder).rglob("*") if path.suffix in SOURCES):
            findings += check_file(source, tree, allowed, ops)
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
