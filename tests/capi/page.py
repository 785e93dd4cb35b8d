"""The program that docs/c.md shows: page.py PAGE OUT writes it to a file, page.py --check PAGE PROGRAM runs it compiled and
compares what it prints with what the page shows."""

import re
import subprocess
import sys

page, other = sys.argv[-2:]
text = open(page).read()
program = re.search(r"```c\n(.*?)```", text, re.S)
printed = re.search(r"It prints\n```\n(.*?)```", text, re.S)
if not program or not printed:
    sys.exit(f"{page}: expected a block of C and what it prints")
if "--check" not in sys.argv:
    open(other, "w").write(program[1])
else:
    done = subprocess.run([other], capture_output=True, text=True, timeout=200)
    if (done.returncode, done.stdout) != (0, printed[1]):
        sys.exit(f"expected\n{printed[1]}got {done.returncode}\n{done.stdout}{done.stderr}")
