"""The caller's end of a peer worker: starts it, sends a command, waits for the reply."""

import json
import os
import subprocess
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]


class PeerError(RuntimeError):
    pass


def environment_for(threads: int) -> dict:
    """The environment both sides run in: equal thread counts, nothing that slows either side."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


WORKERS = {"pytorch": "peer.worker", "jax": "peer.jax_worker", "tensorflow": "peer.tf_worker"}


class Peer:
    """A persistent worker, one per mode, so that compilation is paid once."""

    def __init__(self, framework: str, python: Path, net, mode: str, phase: str, threads: int):
        self.framework, self.mode = framework, mode
        arguments = [net.name, mode, phase, str(threads), str(net.batch)]
        self.process = subprocess.Popen([str(python), "-m", WORKERS[framework], *arguments], cwd=BENCH, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_for(threads))

    def ask(self, do: str, **arguments) -> dict:
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerError(f"{self.framework}'s {self.mode} worker ended during '{do}' (code {self.process.wait()})")
        reply = json.loads(line)
        if "error" in reply:
            raise PeerError(f"{self.framework}'s {self.mode} worker failed in '{do}': {reply['error']}")
        return reply

    def close(self) -> None:
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended by itself, with a command unread
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
