"""What the peers' workers share: commands as JSON lines on stdin, replies on stdout.

{"do": "losses", "file": F} → {"losses": [...]}    the losses of 20 steps from the weights and batch in F
{"do": "prepare"}           → {"variant": V, ...}  compiles, tries every variant, keeps the fastest
{"do": "slice", "seconds": S} → {"step_ms", "p10_ms", "steps"}
Between commands a worker sleeps in a read; a thread pool's own spinning is left as the peer has it.
"""

import json
import os
import sys
import time

from peer import clock

TRIAL_PASSES = 3
TRIAL_SECONDS = 0.3
SETTLE_SECONDS = 0.3


class Worker:
    """A peer in one mode. Those below say what the steps of each variant are, and how losses are computed."""

    def __init__(self, net, mode: str, phase: str):
        self.net, self.mode, self.phase = net, mode, phase
        self.step = None

    def losses(self, file: str) -> dict:
        raise NotImplementedError

    def variants(self) -> dict:
        """name → function that takes one step and waits for it."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def prepare(self) -> dict:
        variants = self.variants()
        trials = self.trials(variants)
        best = min(trials, key=trials.get)
        self.step = variants[best]
        return {"variant": best, "trials_ms": trials, "version": self.version()}

    def trials(self, variants: dict) -> dict:
        """Median ms of each variant over a few interleaved passes; a first call outside them compiles."""
        for step in variants.values():
            step()
        passes = {name: [] for name in variants}
        for _ in range(TRIAL_PASSES if len(variants) > 1 else 1):
            for name, step in variants.items():
                passes[name].append(clock.time_slice(step, TRIAL_SECONDS)["step_ms"])
        return {name: sorted(times)[len(times) // 2] for name, times in passes.items()}

    def slice(self, seconds: float) -> dict:
        result = clock.time_slice(self.step, seconds)
        time.sleep(SETTLE_SECONDS)  # the threads stop spinning before the other side starts
        return result


def serve(worker: Worker) -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print goes to stderr, so that stdout carries replies only
    for line in sys.stdin:
        command = json.loads(line)
        action = getattr(worker, command.pop("do"))
        try:
            reply = action(**command)
        except Exception as error:  # told to the caller, who decides
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies)
