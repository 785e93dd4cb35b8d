"""Programs of several ranks, as tests start them: each rank tells its results in a file of its own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap


def starling_program():
    return os.environ.get("STARLING_PROGRAM", "")


def run_script(text, tmp_path, seconds=120, command=(), arguments=(), folder=None):
    script = pathlib.Path(tempfile.mkdtemp(dir=tmp_path), "script.py")
    script.write_text(textwrap.dedent(text))
    return subprocess.run(
        [*command, sys.executable, str(script), *arguments],
        capture_output=True, text=True, timeout=seconds, env=dict(os.environ), cwd=folder,
    )


def told_by_ranks(command, tmp_path, program):
    """What the ranks of a program told: lists [rank, size, ...] written to the file argv[1]/rank."""
    told = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    done = run_script(program, tmp_path, command=command, arguments=[str(told)])
    assert done.returncode == 0, done.stdout + done.stderr
    results = sorted(json.loads(file.read_text()) for file in told.iterdir())
    ranks = [(rank, size) for rank, size, *_ in results]
    assert ranks == [(rank, len(results)) for rank in range(len(results))], ranks
    return results
