#!/usr/bin/env python3
"""Kills ranks of real runs: who is named, how soon all have ended, and the weights of the run that goes on.

  kills_test.py build/ci/bin/starling --over mpi --victim 1   # one kill, as ctest does
  kills_test.py build/ci/bin/starling                         # every rank in turn over every backend; prints a table

Every run is in deterministic mode, so all must end with the weights of one process that nobody disturbed. Skipped (77)
where what is needed is missing.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
RANKS = 3
NAMED_WITHIN = 5.0  # seconds
PATIENCE = 120.0  # for a run as a whole; nothing is measured by it

JOB = """model: {{name: mlp}}
data: {{folder: '{data}', batch: 24}}
optimizer: {{lr: 0.02, momentum: 0.9}}
train: {{folder: '{run}', epochs: {epochs}, checkpoint_every: 5, export: false}}
distribute: {{threads: 3, strategy: allreduce, deterministic: true}}
monitor: {{tensorboard: false}}
"""


class Missing(Exception):
    """What this way of running needs is not here."""


def write_images(folder, part, count):
    """Images that tell their class by a bright band, in Fashion-MNIST's format."""
    noise = random.Random(7)
    labels = bytes(i % 10 for i in range(count))
    with open(folder / f"{part}-labels-idx1-ubyte", "wb") as out:
        out.write(struct.pack(">II", 0x801, count) + labels)
    with open(folder / f"{part}-images-idx3-ubyte", "wb") as out:
        out.write(struct.pack(">IIII", 0x803, count, 28, 28))
        for label in labels:
            pixels = bytearray(noise.randbytes(28 * 28))
            for pixel in range(label * 84, min(28 * 28, label * 84 + 84)):
                pixels[pixel] |= 0xC0
            out.write(pixels)


class Log:
    """The lines of a program's stdout and stderr, each with the time at which it came."""

    def __init__(self, process):
        self.lines = []
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream):
        for line in stream:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def close(self):
        self._reader.join(10)

    def text(self):
        return "\n".join(line for _, line in self.lines)

    def find(self, pattern):
        """Time and match of the first line like this."""
        for index, (when, line) in enumerate(self.lines):
            match = re.search(pattern, line)
            if match:
                return index, when, match
        return None


def expect(condition, what, log):
    if not condition:
        raise AssertionError(f"{what}\n--- log\n{log.text()}")


def rank_processes(job, variables):
    """Process ids by rank: those that train this job and were told a rank by one of these variables."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"train" not in words[1:2] or os.fsencode(job) not in words:
                continue
            for variable in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name.decode() in variables:
                    found[int(value)] = int(folder.name)
        except (OSError, ValueError):  # it has ended meanwhile
            continue
    return found


def gone(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def check_survivors(log, victim):
    """Where something else started the ranks, each survivor tells how far it was."""
    host = re.escape(socket.gethostname())
    for rank in set(range(RANKS)) - {victim}:
        said = log.find(rf"starling: rank {rank} on {host} (is ended by SIGTERM|failed) after step \d+")
        expect(said, f"expected that rank {rank} tells its last step", log)


class Way:
    """How ranks are started, what names a dead one, and whether the starter itself starts them again."""

    variables = ("STARLING_RANK",)
    restarts = False
    count = RANKS  # of processes

    @property
    def victims(self):
        return range(self.count)

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def command(self, job):
        raise NotImplementedError

    def environment(self):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STARLING_", "OMPI_", "PMI"))}
        return clean

    def naming(self, victim, pid):
        """The line that names it."""
        host = re.escape(socket.gethostname())
        return rf"^starling: rank {victim} \(pid {pid} on {host}\) was killed by SIGKILL, last reported step (\d+)"

    def check_order(self, log, index, victim):
        """What the first failing rank said comes last: nothing of others after it is named."""
        for _, line in log.lines[index + 1 :]:
            if "start again" in line:
                return
            words_of_victim = line.startswith(f"[{victim}] ") or "had written nothing" in line
            expect(words_of_victim, f"expected only words of rank {victim} after its name, got: {line}", log)


class Threads(Way):
    """Ranks that are threads die together, with the process that they are; its shell names the signal."""

    count = 1

    def command(self, job):
        return [self.program, "train", job, "--set", f"distribute.workers={RANKS}", "--progress", "off"]

    def processes(self, started, _job):
        return {0: started.pid}

    def naming(self, _victim, _pid):
        return None


class Launched(Way):
    restarts = True

    def __init__(self, program, folder, *more):
        super().__init__(program, folder)
        self.more = more

    def command(self, job):
        return [self.program, "launch", "-n", str(RANKS), *self.more, "--max-restarts", "1", job, "--progress", "off"]

    def processes(self, _started, job):
        return rank_processes(job, self.variables)


class Hosts(Launched):
    """Two hosts, played by this one: shared memory inside them, Gloo between them. The second is reached by a shell."""

    def __init__(self, program, folder):
        (folder / "hosts").write_text("localhost slots=1\nbeta slots=2\n")
        shell = folder / "shell"
        shell.write_text('#!/bin/sh\nexport STARLING_HOST="$1"\nshift\nexec /bin/sh -c "$*"\n')
        shell.chmod(0o755)
        super().__init__(program, folder, "--hosts", str(folder / "hosts"), "--ssh", str(shell), "--address", "127.0.0.1")

    def naming(self, victim, pid):
        if victim == 0:
            return rf"^starling: rank 0 \(pid {pid} on .*\) was killed by SIGKILL, last reported step (\d+)"
        return rf"^starling: rank {victim} \(on beta\) was killed by SIGKILL, last reported step (\d+)"


class MpiRun(Way):
    variables = ("OMPI_COMM_WORLD_RANK",)

    def __init__(self, program, folder, backend):
        super().__init__(program, folder)
        self.backend = backend
        self.mpirun = shutil.which("mpirun")
        if self.mpirun is None:
            raise Missing("no mpirun here (openmpi-bin)")
        doctor = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
        if not re.search(r"(?m)^ranks .*\bMPI\b", doctor):
            raise Missing("this build has no MPI")

    def command(self, job):
        start = [self.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS)]
        return start + [self.program, "train", job, "--resume", "auto", "--progress", "off"]

    def environment(self):
        return {**super().environment(), "STARLING_BACKEND": self.backend}

    def processes(self, _started, job):
        return rank_processes(job, self.variables)

    def naming(self, victim, pid):
        host = re.escape(socket.gethostname())
        return rf"process rank {victim} with PID \d+ on node {host} exited on signal 9"

    def check_order(self, log, _index, victim):
        check_survivors(log, victim)


class Srun(Way):
    """A step of a Slurm cluster that is up. Its ranks find out by themselves that one has died."""

    variables = ("SLURM_PROCID",)

    def __init__(self, program, folder, backend, *more):
        super().__init__(program, folder)
        self.backend = backend
        self.more = more
        if shutil.which("srun") is None or subprocess.run(["sinfo"], capture_output=True, timeout=30, check=False).returncode:
            raise Missing("no Slurm cluster here")

    def command(self, job):
        start = ["srun", "--unbuffered", "--overcommit", "-n", str(RANKS), *self.more]
        return start + [self.program, "train", job, "--resume", "auto", "--progress", "off"]

    def environment(self):
        return {**super().environment(), "STARLING_BACKEND": self.backend, "STARLING_SECRET": "a word of this test alone"}

    def processes(self, _started, job):
        return rank_processes(job, self.variables)

    def naming(self, victim, _pid):
        return rf"srun: error: \S+: task {victim}: Killed"

    def check_order(self, log, _index, victim):
        if "--mpi=pmix" not in self.more:  # there Slurm kills the others at once
            check_survivors(log, victim)


WAYS = {
    "threads": Threads,
    "shared": lambda program, folder: Launched(program, folder, "--backend", "shared"),
    "gloo": lambda program, folder: Launched(program, folder, "--backend", "gloo"),
    "hosts": Hosts,
    "mpirun": lambda program, folder: MpiRun(program, folder, "auto"),
    "mpi": lambda program, folder: MpiRun(program, folder, "mpi"),
    "srun": lambda program, folder: Srun(program, folder, "auto", "-N", "1", "--mpi=none"),
    "srun2": lambda program, folder: Srun(program, folder, "gloo", "-N", "2", "--mpi=none"),
    "pmi2": lambda program, folder: Srun(program, folder, "auto", "-N", "1", "--mpi=pmi2"),
    "pmix": lambda program, folder: Srun(program, folder, "mpi", "-N", "1", "--mpi=pmix"),
}


class Runs:
    """A folder with data, jobs and what they leave."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        write_images(folder, "train", 240)
        write_images(folder, "t10k", 24)
        self.quiet = None

    def job(self, name, epochs=4):
        file = self.folder / f"{name}.yaml"
        file.write_text(JOB.format(data=self.folder, run=self.folder / name, epochs=epochs))
        return str(file)

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def undisturbed(self):
        if self.quiet is None:
            done = subprocess.run(
                [self.program, "train", self.job("quiet"), "--progress", "off"], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise AssertionError(f"the undisturbed run fails:\n{done.stderr}")
            self.quiet = self.summary("quiet")
        return self.quiet

    def checkpoints(self, name):
        folder = self.folder / name / "checkpoints"
        return [entry for entry in folder.iterdir() if ".tmp" not in entry.name] if folder.is_dir() else []


def start(way, command):
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=way.environment(), stdin=subprocess.DEVNULL
    )
    return process, Log(process)


def wait(process, log):
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        expect(False, f"not ended after {PATIENCE} s", log)
    log.close()
    return process.returncode


def wait_until(condition, seconds, every=0.002):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def kill_one(runs, over, way, victim):
    """One run whose rank `victim` is killed once a checkpoint is there; what was seen of it, in words."""
    name = f"{over}-{victim}"
    job = runs.job(name)
    process, log = start(way, way.command(job))
    processes = {}

    def all_there():
        processes.update(way.processes(process, job))
        return len(processes) == way.count or process.poll() is not None

    wait_until(all_there, PATIENCE, every=0.02)
    wait_until(lambda: runs.checkpoints(name) or process.poll() is not None, PATIENCE)
    expect(victim in processes and process.poll() is None, f"rank {victim} is not found among {processes}", log)
    os.kill(processes[victim], signal.SIGKILL)
    killed = time.monotonic()
    expect(wait_until(lambda: all(map(gone, processes.values())), 2 * NAMED_WITHIN), "ranks are left", log)
    ended = time.monotonic() - killed
    expect(ended < NAMED_WITHIN, f"expected all ranks ended within {NAMED_WITHIN} s, got {ended:.1f}", log)
    code = wait(process, log)

    seen = {"ended": ended, "named": None, "step": None}
    pattern = way.naming(victim, processes[victim])
    if pattern:
        found = log.find(pattern)
        expect(found, f"expected a line like {pattern}", log)
        index, when, match = found
        seen["named"] = when - killed
        expect(seen["named"] < NAMED_WITHIN, f"expected rank {victim} named within {NAMED_WITHIN} s", log)
        if match.groups():
            seen["step"] = int(match.group(1))
            expect(5 <= seen["step"] <= runs.undisturbed()["steps"], "expected a step that was taken", log)
        way.check_order(log, index, victim)
    if way.restarts:
        expect("restart 1 of 1" in log.text(), "expected a restart", log)
    else:
        expect(code != 0, "expected that the starter tells of the failure by its exit code", log)
        expect(not (runs.folder / name / "summary.json").exists(), "expected a run cut short", log)
        process, log = start(way, way.command(job))
        code = wait(process, log)
    expect(code == 0, f"expected that the run goes on to its end, got exit code {code}", log)
    summary = runs.summary(name)
    for key in ("weights_hash", "steps"):
        expect(summary[key] == runs.undisturbed()[key], f"expected {key} {runs.undisturbed()[key]}, got {summary[key]}", log)
    return seen


def show(over, victim, seen):
    named = "by its shell" if seen["named"] is None else f"{seen['named']:.2f} s"
    step = "" if seen["step"] is None else f", at step {seen['step']}"
    print(f"{over:8} rank {victim}  named after {named}{step}  all ended after {seen['ended']:.2f} s  same weights", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--over", choices=WAYS, action="append", help="by default all")
    parser.add_argument("--victim", type=int, help="by default each rank in turn")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    ran = 0
    with tempfile.TemporaryDirectory(prefix="starling-kills-") as name:
        folder = pathlib.Path(name)
        runs = Runs(program, folder)
        for over in options.over or WAYS:
            try:
                way = WAYS[over](program, folder)
            except Missing as missing:
                print(f"{over}: skipped, {missing}")
                continue
            for victim in way.victims if options.victim is None else [options.victim]:
                show(over, victim, kill_one(runs, over, way, victim))
                ran += 1
    return 0 if ran else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
