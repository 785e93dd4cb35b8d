"""When and on what a result was measured: what makes results of different days one series."""

import datetime
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def git(*arguments, folder: Path = ROOT) -> str:
    """What git prints, run in `folder`; nothing where it fails."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def stamp() -> dict:
    """The date and the commit; the commit ends with "+" where tracked files differ from it, and is null outside git."""
    commit = git("rev-parse", "--short=10", "HEAD")
    changed = bool(commit) and bool(git("status", "--porcelain", "--untracked-files=no"))
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return {"date": now.isoformat(), "commit": commit + "+" * changed if commit else None}
