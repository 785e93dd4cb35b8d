"""The peers' own virtual environments: made once, kept in .venv-*, found again by their stamps.

Needs only the standard library. Named `environment`, because a `venv.py` would shadow the standard module.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-bench"
REQUIREMENTS = ["torch==2.15.0", "numpy", "safetensors"]
PEERS = {"pytorch": (FOLDER, REQUIREMENTS),
         "jax": (ROOT / ".venv-jax", ["jax==0.10.2", "numpy", "safetensors"]),
         "tensorflow": (ROOT / ".venv-tensorflow", ["tensorflow-cpu==2.21.0", "numpy", "safetensors"])}
EXIT_NO_INDEX = 3


class Missing(RuntimeError):
    """The packages of a peer are not there and cannot be installed."""


def python_of(folder: Path = FOLDER) -> Path:
    return folder / "bin" / "python"


def install(folder: Path, requirements: list) -> Path:
    """The environment's Python; makes and fills the environment first if its stamp is missing or old."""
    stamp = folder / "starling-requirements.txt"
    wanted = "\n".join(requirements) + "\n"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python_of(folder)
    print(f"[compare] making {folder} with {' '.join(requirements)} (a large download, once)", file=sys.stderr)
    make(folder, requirements)
    stamp.write_text(wanted)
    return python_of(folder)


def ensure(folder: Path = FOLDER, requirements: list = REQUIREMENTS) -> Path:
    """As install, but exits with code 3, saying why, when the packages cannot be installed."""
    try:
        return install(folder, requirements)
    except Missing as why:
        print(f"[compare] no PyTorch to compare with: {why}", file=sys.stderr)
        sys.exit(EXIT_NO_INDEX)


def make(folder: Path, requirements: list) -> None:
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if made.returncode != 0:
        raise Missing(f"python3 -m venv failed (on Debian: package python3-venv)\n{tail(made.stdout + made.stderr)}")
    pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--progress-bar", "off", *requirements]
    installed = subprocess.run(pip, cwd=ROOT, capture_output=True, text=True)
    if installed.returncode != 0:
        raise Missing(f"pip could not install {' '.join(requirements)}: no package index within reach, or it lacks "
                      f"them for this Python\n{tail(installed.stdout + installed.stderr)}")


def tail(text: str, lines: int = 6) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])


def reexec() -> None:
    """Runs the calling script again under the environment's Python, unless it already does."""
    python = ensure()
    if Path(sys.prefix).resolve() != FOLDER.resolve():
        os.execv(python, [str(python), *sys.argv])
