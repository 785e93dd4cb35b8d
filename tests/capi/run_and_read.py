#!/usr/bin/env python3
"""run_and_read.py PATTERN COMMAND...: passes when the command ends with status 0 and prints what the pattern finds."""

import re
import subprocess
import sys

pattern, *command = sys.argv[1:]
ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(ran.stdout, end="")
if ran.returncode != 0:
    sys.exit(f"expected exit status 0, got {ran.returncode}")
if not re.search(pattern, ran.stdout):
    sys.exit(f"expected output with '{pattern}', got none")
