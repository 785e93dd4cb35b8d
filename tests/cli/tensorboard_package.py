"""TensorBoard for tests: the installed one, or one fetched into a virtual environment of the build.

`use(folder)` makes `import tensorboard` work, or ends the test with 77 (skipped) and says why.
"""

import os
import pathlib
import subprocess
import sys

SKIPPED = 77
SECONDS = 240


def skip(why: str) -> None:
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def installed() -> bool:
    try:
        from tensorboard.backend.event_processing import event_accumulator  # noqa: F401
    except ImportError:
        return False
    return True


def use(folder: str) -> None:
    if installed():
        return
    if os.environ.get("STARLING_TENSORBOARD_AGAIN"):
        skip("TensorBoard was installed and still cannot be imported")
    venv = pathlib.Path(folder)
    python = venv / "bin" / "python"
    ready = venv / "ready"
    if not ready.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True, timeout=SECONDS)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", "--retries", "0", "--timeout", "15", "tensorboard"],
                check=True,
                timeout=SECONDS,
            )
        except (subprocess.SubprocessError, OSError) as problem:
            skip(f"TensorBoard is not installed and cannot be fetched: {problem}")
        ready.touch()
    os.environ["STARLING_TENSORBOARD_AGAIN"] = "1"
    os.execv(python, [python, *sys.argv])
