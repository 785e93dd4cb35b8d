"""Commands and options of `starling` that pages name, in text or in blocks, exist.

  options_test.py ROOT PROGRAM
"""

import functools
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
ROOT = pathlib.Path(sys.argv.pop())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CALL = re.compile(r"(?:^|[`\s(])starling ([a-z-]+)((?:\\\n|[^`\n#|;>])*)", re.M)
OPTION = re.compile(r"(?<=\s)(--[a-z][a-z-]*)")
OTHERS = {"launch"}  # what stands behind `--` belongs to another program


@functools.cache
def help_of(command: str) -> str:
    """Help of a command; "" if there is none of that name."""
    done = subprocess.run([PROGRAM, *command.split(), "--help"], capture_output=True, encoding="utf-8", timeout=60,
                          check=False)
    return done.stdout if done.returncode == 0 else ""


def unknown_parts(text: str) -> list[str]:
    """Calls of commands or options that do not exist. Blocks of Python call the package, not the program."""
    found = []
    for match in CALL.finditer(re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL)):
        command, rest = match[1], match[2]
        if command in ("help",) or command.startswith("-"):
            continue
        words = rest.split()
        if words and re.fullmatch(r"[a-z-]+", words[0]) and help_of(f"{command} {words[0]}") != help_of(command):
            command = f"{command} {words[0]}" if help_of(f"{command} {words[0]}") else command
        if not help_of(command):
            found.append(f"starling {command}")
            continue
        if match[1] in OTHERS:
            rest = rest.split(" -- ")[0]
        known = set(OPTION.findall(help_of(command).replace(",", " ")))
        found += [f"starling {command} … {option}" for option in OPTION.findall(rest) if option not in known]
    return found


class Options(unittest.TestCase):
    def test_options_of_all_pages_exist(self):
        calls = 0
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            calls += len(CALL.findall(text))
            with self.subTest(page=page.name):
                self.assertEqual(unknown_parts(text), [])
        self.assertGreater(calls, 100)

    def test_wrong_ones_are_found(self):
        self.assertEqual(unknown_parts("run `starling trian job.yaml`"), ["starling trian"])
        self.assertEqual(unknown_parts("```sh\nstarling train job.yaml --quick\n```"), ["starling train … --quick"])
        self.assertEqual(unknown_parts("`starling inspect data x.npy --stat`"), ["starling inspect data … --stat"])
        self.assertEqual(unknown_parts("`starling inspect data x.npy --stats`, `starling zoo`"), [])


if __name__ == "__main__":
    unittest.main()
