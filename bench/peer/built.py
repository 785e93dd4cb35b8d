"""Programs that scripts measure: where one is missing, the end of the script says how to build it."""

import os
import sys
from pathlib import Path

NEEDS = {"bench_ceilings": "-DSTARLING_ONEDNN=ON", "bench_gemm": "-DSTARLING_ONEDNN=ON"}


def how_to_build(program: Path) -> str:
    """The commands that make build/<preset>/…/<program>."""
    parts = program.parts
    preset = parts[parts.index("build") + 1] if "build" in parts[:-2] else "release"
    target = "starling_cli" if program.name == "starling" else program.name
    configure = " ".join(["cmake", "--preset", preset, *filter(None, [NEEDS.get(program.name)])])
    return f"{configure} && cmake --build --preset {preset} --target {target}"


def built(program) -> str:
    """The path of a program that is there; otherwise ends the script with code 2."""
    path = Path(program)
    if path.is_file() and os.access(path, os.X_OK):
        return str(path)
    print(f"{Path(sys.argv[0]).name}: expected the program {path}, which is not built. In the root of the source tree:\n"
          f"  {how_to_build(path)}", file=sys.stderr)
    sys.exit(2)


def torch_or_end():
    """The module torch; where this interpreter has none, ends the script with code 3."""
    try:
        import torch
    except ModuleNotFoundError:
        print(f"{Path(sys.argv[0]).name}: needs an interpreter that has PyTorch; `python3 bench/compare.py` makes one, "
              ".venv-bench/bin/python", file=sys.stderr)
        sys.exit(3)
    return torch
