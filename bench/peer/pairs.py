"""Two processes, each on a core of its own, that take timed steps on request: side by side or together."""

import json
import os
import select
import socket
import statistics
import subprocess
import time

START_SECONDS = 180  # until both have compiled and met
SLICE_SECONDS = 120


class PairError(RuntimeError):
    pass


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


class Process:
    """One of a pair. `within`: words before the command, such as those that enter a network namespace."""

    def __init__(self, name: str, command: list, core: int, environment: dict, within=(), folder=None):
        self.name = name
        self.process = subprocess.Popen(
            [*within, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **environment},
            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.rest = b""

    def line(self, seconds: float) -> dict:
        end = time.monotonic() + seconds
        out = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            ready, _, _ = select.select([out], [], [], max(0.0, end - time.monotonic()))
            more = os.read(out, 65536) if ready else b""
            if not more:
                raise PairError(f"{self.name}: no answer within {seconds} s" if not ready else
                                f"{self.name} ended with code {self.process.wait()}")
            self.rest += more
        first, _, self.rest = self.rest.partition(b"\n")
        return json.loads(first)

    def request(self, steps: int) -> None:
        self.process.stdin.write(f"{steps}\n".encode())
        self.process.stdin.flush()

    def close(self) -> None:
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Pair:
    """Both, ready for slices. `hello` is what the first says of itself."""

    def __init__(self, processes: list):
        self.processes = processes
        try:
            self.hello = [one.line(START_SECONDS) for one in processes][0]
        except PairError:
            self.close()
            raise

    def slice(self, steps: int, only: int | None = None) -> dict:
        """Both take so many steps at once, or the one given does alone: the mean of their times in ms."""
        chosen = self.processes if only is None else [self.processes[only]]
        for one in chosen:
            one.request(steps)
        answers = [one.line(SLICE_SECONDS) for one in chosen]
        return {key: statistics.mean(a[key] for a in answers) for key in ("step_ms", "mean_ms", "p10_ms")}

    def close(self) -> None:
        for one in self.processes:
            if one.process.stdin and not one.process.stdin.closed:
                try:
                    one.process.stdin.close()
                except BrokenPipeError:
                    pass
        for one in self.processes:
            one.close()
