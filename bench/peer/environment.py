"""The peer's own virtual environment: made once, kept in .venv-bench, found again by its stamp.

Needs only the standard library. Named `environment`, because a `venv.py` would shadow the standard module.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-bench"
REQUIREMENTS = ["torch==2.15.0", "numpy", "safetensors"]
EXIT_NO_INDEX = 3


def python_of(folder: Path = FOLDER) -> Path:
    return folder / "bin" / "python"


def ensure(folder: Path = FOLDER) -> Path:
    """The environment's Python; makes and fills the environment first if its stamp is missing or old.

    Exits with code 3, saying why, when the packages cannot be installed.
    """
    stamp = folder / "starling-requirements.txt"
    wanted = "\n".join(REQUIREMENTS) + "\n"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python_of(folder)
    print(f"[compare] making {folder} with {' '.join(REQUIREMENTS)} (a download of some GB, once)", file=sys.stderr)
    make(folder)
    stamp.write_text(wanted)
    return python_of(folder)


def make(folder: Path) -> None:
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if made.returncode != 0:
        refuse(f"python3 -m venv failed (on Debian: package python3-venv)\n{tail(made.stdout + made.stderr)}")
    pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--progress-bar", "off", *REQUIREMENTS]
    installed = subprocess.run(pip, cwd=ROOT, capture_output=True, text=True)
    if installed.returncode != 0:
        refuse(f"pip could not install {' '.join(REQUIREMENTS)}: no package index within reach, or it lacks "
               f"them for this Python\n{tail(installed.stdout + installed.stderr)}")


def refuse(why: str) -> None:
    print(f"[compare] no PyTorch to compare with: {why}", file=sys.stderr)
    sys.exit(EXIT_NO_INDEX)


def tail(text: str, lines: int = 6) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])


def reexec() -> None:
    """Runs the calling script again under the environment's Python, unless it already does."""
    python = ensure()
    if Path(sys.prefix).resolve() != FOLDER.resolve():
        os.execv(python, [str(python), *sys.argv])
