"""compile_alone.py BUILD JOBS: checks every source of a configured build folder with its compiler, alone, without making
code of it (-fsyntax-only): a source that lives on the headers of its batch's neighbours is told. What the build
generates is made first."""

import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys


def generate(build: pathlib.Path, jobs: int) -> None:
    """Makes the sources and headers that custom commands write."""
    targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True, text=True)
    names = [line.split(": ")[0] for line in targets.stdout.splitlines() if line.endswith(": CUSTOM_COMMAND")]
    names = [name for name in names if pathlib.Path(name).suffix in (".h", ".cc", ".cpp")]
    if names:
        subprocess.run(["ninja", "-C", build, f"-j{jobs}", *names], check=True, stdout=subprocess.DEVNULL)


def checks(build: pathlib.Path) -> dict[str, list[str]]:
    """The command that checks each source, from the one that compiles it."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith("cmake_pch.hxx.cxx"):  # a header made ahead of time is no source
            continue
        words = shlex.split(entry["command"])
        output = words.index("-o")
        del words[output : output + 2]
        commands[entry["file"]] = [word for word in words if not word.endswith("ccache")] + ["-fsyntax-only"]
    return commands


def check(build: pathlib.Path, source: str, command: list[str]) -> tuple[str, bool]:
    """What the compiler says of a source, and whether it took it."""
    done = subprocess.run(command, cwd=build, capture_output=True, text=True)
    said = done.stdout + done.stderr
    return (f"{source}\n{said}" if said else ""), done.returncode == 0


def main() -> int:
    build, jobs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    generate(build, jobs)
    commands = checks(build)
    if not commands:
        print(f"    expected sources in {build}/compile_commands.json, got none")
        return 1
    refused = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for said, taken in pool.map(lambda item: check(build, *item), commands.items()):
            refused += not taken
            if said:
                print(said, end="", flush=True)
    print(f"    {len(commands)} sources, {refused} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
