"""python -m starling: the program `starling` of this package, in place of the interpreter."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(__file__), "bin", "starling")

if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        sys.exit(f"starling: expected the program in {PROGRAM}, which wheels carry, got none")
    os.execv(PROGRAM, ["starling", *sys.argv[1:]])
