"""Our side: the `starling bench` program as compare.py calls it."""

import json
import subprocess

from peer.catalogue import LOSS_STEPS
from peer.client import environment_for


class StarlingError(RuntimeError):
    pass


class Starling:
    """`command` is the program's argument list, e.g. ["build/release/bin/starling"]."""

    def __init__(self, command: list, threads: int):
        self.command, self.threads = command, threads

    def bench(self, net, *arguments) -> str:
        call = [*self.command, "bench", net.name, "--batch", str(net.batch), *map(str, arguments)]
        try:
            done = subprocess.run(call, capture_output=True, text=True, env=environment_for(self.threads))
        except OSError as error:
            raise StarlingError(f"cannot run {self.command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            raise StarlingError(f"{' '.join(call)} ended with code {done.returncode}:\n{done.stderr.strip()}")
        return done.stdout

    def json_line(self, net, *arguments, keys) -> dict:
        """The program's one JSON line, with the given keys present."""
        text = self.bench(net, *arguments, "--json")
        lines = text.strip().splitlines()
        try:
            line = json.loads(lines[-1])
            missing = [key for key in keys if key not in line]
        except (IndexError, json.JSONDecodeError, TypeError) as error:
            raise StarlingError(f"expected one JSON line from starling bench, got {text!r}") from error
        if missing:
            raise StarlingError(f"expected keys {', '.join(missing)} in the line of starling bench, got {lines[-1]}")
        return line

    def export(self, net, file: str) -> None:
        self.bench(net, "--export", file)

    def losses(self, net, file: str) -> list:
        line = self.json_line(net, "--threads", self.threads, "--import", file, "--losses", LOSS_STEPS,
                              keys=["losses"])
        return line["losses"]

    def slice(self, net, phase: str, seconds: float) -> dict:
        """One timed run; refuses a line that is about something else than what was asked."""
        asked = {"net": net.name, "batch": net.batch, "threads": self.threads, "device": "cpu", "dtype": "f32",
                 "phase": phase, "mode": "compiled"}
        line = self.json_line(
            net, "--threads", self.threads, "--device", "cpu", "--dtype", "f32", "--phase", phase,
            "--mode", "compiled", "--seconds", seconds, keys=[*asked, "step_ms", "p10_ms", "peak_bytes"])
        for key, value in asked.items():
            if line[key] != value:
                raise StarlingError(f"asked starling bench for {key} {value}, got {line[key]}")
        return line
