#!/usr/bin/env python3
"""Disturbs real runs at random moments: none may hang, every error names a rank and a cause, and every run in
deterministic mode ends, after the same command has resumed it, with the weights of one that nobody disturbed.

  chaos.py build/ci/bin/starling --seed 1 --runs 20     # as ctest does
  chaos.py build/ci/bin/starling --seed 7 --runs 300    # by hand
  chaos.py build/ci/bin/starling --seed 17 --runs 1     # repeats run 17

Each run is a function of its seed: how ranks are started, the strategy, the fault, its victim and its moment. Faults:
kill (SIGKILL), stop (SIGSTOP for good), pause (SIGSTOP for a moment), pause_all (all ranks for longer than three
heartbeats), slow_disk (the thread that saves stands still), full_disk (a tiny tmpfs in a user namespace), link (one of the
victim's TCP connections is shut down), chatty (a rank's stderr is flooded). What this machine does not allow is skipped
and told.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import kills_test as kills

HEARTBEAT = 0.5  # seconds, of the jobs
DEADLINE = 4.0
SLACK = 5.0  # beyond the deadline, for a run to have ended
PATIENCE = 90.0  # for a run that goes on

STRATEGIES = {
    "deterministic": "strategy: allreduce, deterministic: true",
    "allreduce": "strategy: allreduce",
    "local_sgd": "strategy: local_sgd, every: 4",
    "easgd": "strategy: easgd, every: 4",
    "easgd_async": "strategy: easgd, every: 4, asynchronous: true",
    "backup_workers": "strategy: backup_workers, backups: 1",
    "zero": "strategy: allreduce, zero: 3",
    "codec": "strategy: allreduce, codec: one_bit",
}
FAULTS = ["kill", "stop", "pause", "pause_all", "slow_disk", "full_disk", "link", "chatty"]
CAUSES = re.compile(
    r"was killed by SIG|has been silent|no progress|is lost|has died|lost its connection|exited on signal|closed|"
    r"No space left|exited with code|aborted|Connection reset|was lost|lost 127"
)

JOB = """model: {{name: mlp, hidden: [24]}}
data: {{folder: '{data}', batch: 24}}
optimizer: {{lr: 0.02, momentum: 0.9}}
train: {{folder: '{run}', epochs: {epochs}, checkpoint_every: 10, export: false}}
distribute: {{threads: 2, heartbeat: {heartbeat}, deadline: {deadline}, {strategy}}}
monitor: {{tensorboard: false}}
"""

libc = ctypes.CDLL(None, use_errno=True)


class Skipped(Exception):
    """This machine does not allow the fault."""


class Failed(Exception):
    """What the run did is not what it should."""


def threads_named(pid, name):
    found = []
    for task in (pathlib.Path("/proc") / str(pid) / "task").iterdir():
        try:
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
        except OSError:
            continue
    return found


def ptrace(request, tid):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class StoppedThread:
    """Lets one thread of another process stand still. All requests must come from one thread of this one."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, tid, seconds):
        self.error = None
        self._thread = threading.Thread(target=self._hold, args=(tid, seconds), daemon=True)
        self._thread.start()

    def _hold(self, tid, seconds):
        try:
            ptrace(self.SEIZE, tid)
            ptrace(self.INTERRUPT, tid)
            os.waitpid(tid, self.WALL)
            time.sleep(seconds)
            ptrace(self.DETACH, tid)
        except OSError as error:
            self.error = error

    def join(self):
        self._thread.join(30)


def shut_one_link(pid, dice):
    """Shuts one of the process's TCP connections down; false if it has none."""
    pidfd = os.pidfd_open(pid)
    try:
        descriptors = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        dice.shuffle(descriptors)
        for number in descriptors:
            try:
                if not os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:"):
                    continue
                copy = libc.syscall(438, pidfd, number, 0)  # pidfd_getfd
                if copy < 0:
                    raise Skipped("connections of other processes cannot be reached (ptrace)")
                link = socket.socket(fileno=copy)
                with link:
                    if link.family not in (socket.AF_INET, socket.AF_INET6) or link.type != socket.SOCK_STREAM:
                        continue
                    link.getpeername()
                    link.shutdown(socket.SHUT_RDWR)
                return True
            except OSError:  # it has closed, or listens
                continue
        return False
    finally:
        os.close(pidfd)


def flood(pid):
    try:
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as out:
            for _ in range(400):
                out.write(b"so it goes on and on and on " * 70 + b"\n")
    except OSError:
        pass


def family_of(pid):
    """The process, those of its session (mpirun gives every rank a process group of its own), and all their children."""
    session, parent = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:  # it has ended
            continue
        if fields:
            parent[int(entry.name)], session[int(entry.name)] = int(fields[1]), int(fields[3])
    found = {one for one in session if one == pid or session[one] == pid}
    while more := {one for one in parent if parent[one] in found} - found:
        found |= more
    return found


def kill_family(process):
    """Kills a process that was started in a session of its own, with everything it has started, and waits for it."""
    for pid in family_of(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


class Plan:
    """What a seed stands for."""

    def __init__(self, seed, ways):
        dice = random.Random(seed)
        self.seed = seed
        self.over = dice.choice(ways)
        self.strategy = "deterministic" if dice.random() < 0.5 else dice.choice(sorted(STRATEGIES))
        self.ranks = dice.choice([2, 3])
        self.victim = dice.randrange(self.ranks)
        self.fault = dice.choice(FAULTS)
        if self.over == "mpi" and self.fault == "link":
            self.fault = "kill"  # most of its connections are to mpirun, which ends the job without a word of ours
        # As soon as the victim is there; else after the first checkpoint. Hearts beat once ranks have joined, which has
        # a deadline of its own.
        self.early = dice.random() < 0.25 and self.fault != "stop"
        self.delay = dice.uniform(0, 0.3)
        self.dice = dice

    def text(self):
        when = "at the start" if self.early else "after a checkpoint"
        return f"{self.over}, {self.strategy}, {self.ranks} ranks: {self.fault} of rank {self.victim} {when} + {self.delay:.2f} s"


class Chaos:
    def __init__(self, program, folder, epochs):
        self.program = program
        self.folder = folder
        self.epochs = epochs
        kills.write_images(folder, "train", 240)
        kills.write_images(folder, "t10k", 48)
        self.quiet = None

    def job(self, name, strategy):
        file = self.folder / f"{name}.yaml"
        text = JOB.format(
            data=self.folder,
            run=self.folder / name,
            epochs=self.epochs,
            heartbeat=HEARTBEAT,
            deadline=DEADLINE,
            strategy=STRATEGIES[strategy],
        )
        file.write_text(text)
        return str(file)

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def undisturbed(self):
        if self.quiet is None:
            command = [self.program, "train", self.job("quiet", "deterministic"), "--progress", "off"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"the undisturbed run fails:\n{done.stderr}")
            self.quiet = self.summary("quiet")
        return self.quiet

    def command(self, plan, job):
        ranks = str(plan.ranks)
        if plan.over == "threads":
            return [self.program, "train", job, "--set", f"distribute.workers={ranks}", "--progress", "off"]
        if plan.over == "mpi":
            start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks]
            return start + [self.program, "train", job, "--progress", "off"]
        return [self.program, "launch", "-n", ranks, "--backend", plan.over, job, "--progress", "off"]

    def environment(self, plan):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STARLING_", "OMPI_", "PMI"))}
        if plan.over == "mpi":
            clean["STARLING_BACKEND"] = "mpi"
        return clean

    def start(self, plan, command):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self.environment(plan),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return process, kills.Log(process)

    def processes(self, plan, started, job):
        """Process ids by rank; threads are all in one."""
        if plan.over == "threads":
            return {rank: started.pid for rank in range(plan.ranks)}
        variable = "OMPI_COMM_WORLD_RANK" if plan.over == "mpi" else "STARLING_RANK"
        return kills.rank_processes(job, (variable,))

    def checkpoints(self, name):
        folder = self.folder / name / "checkpoints"
        return [entry for entry in folder.iterdir() if ".tmp" not in entry.name] if folder.is_dir() else []

    def await_moment(self, plan, process, job, name):
        """Process ids by rank once the moment of the fault has come; none: the run has ended before."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            found = self.processes(plan, process, job)
            if len(found) == plan.ranks and (plan.early or self.checkpoints(name)):
                time.sleep(plan.delay)
                return found if process.poll() is None else None
            time.sleep(0.01)
        return None

    def disturb(self, plan, found):
        """Makes the fault. Returns what undoes it, to be called when the run has ended."""
        victim = found[plan.victim]
        everybody = sorted(set(found.values()))

        def send(what, to):
            for pid in to:
                try:
                    os.kill(pid, what)
                except ProcessLookupError:
                    pass

        if plan.fault == "kill":
            send(signal.SIGKILL, [victim])
        if plan.fault == "stop":
            send(signal.SIGSTOP, [victim])
            if plan.over == "threads":  # nobody is left to notice
                time.sleep(4 * HEARTBEAT)
                send(signal.SIGCONT, [victim])
        if plan.fault == "pause":
            send(signal.SIGSTOP, [victim])
            time.sleep(HEARTBEAT / 2)
            send(signal.SIGCONT, [victim])
        if plan.fault == "pause_all":
            send(signal.SIGSTOP, everybody)
            time.sleep(4 * HEARTBEAT)
            send(signal.SIGCONT, everybody)
        if plan.fault == "chatty":
            flood(victim)
        if plan.fault == "link" and not shut_one_link(victim, plan.dice):
            raise Skipped("the victim has no connection")
        if plan.fault == "slow_disk":
            held = [StoppedThread(tid, 2.5) for tid in threads_named(found[0], "starling-saver")]
            time.sleep(0.1)
            if held and held[0].error:
                raise Skipped(f"threads of other processes cannot be held ({held[0].error})")
            for one in held:
                one.join()

    def in_small_disk(self, command, name):
        """The command with a run folder that is nearly full."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        mount = f"mount -t tmpfs -o size=192k tmpfs '{folder}' && exec \"$@\""
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*words, f"mount -t tmpfs tmpfs '{folder}'"], capture_output=True, check=False).returncode:
            raise Skipped("no tmpfs in a user namespace here")
        return [*words, mount, "sh", *command]

    def end(self, process, log, limit, what):
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            kill_family(process)
            raise Failed(f"{what}: not ended after {limit:.0f} s\n{log.text()}") from None
        log.close()
        return process.returncode

    def run(self, plan):
        """One disturbed run and its resumptions. Returns what happened, in a few words."""
        name = f"run{plan.seed}"
        job = self.job(name, plan.strategy)
        command = self.command(plan, job)
        full = plan.fault == "full_disk"
        process, log = self.start(plan, self.in_small_disk(command, name) if full else command)
        told = "went on"
        try:
            if not full:
                found = self.await_moment(plan, process, job, name)
                if found is None:
                    told = "ended before the fault"
                else:
                    self.disturb(plan, found)
            disturbed = time.monotonic()
            # A run that fails does so within the deadline; one that goes on may take its time, but must not stand still.
            deadly = plan.fault in ("kill", "stop") and found is not None and plan.over != "threads"
            code = self.end(process, log, DEADLINE + SLACK if deadly else PATIENCE, "the disturbed run")
        finally:
            for pid in set(self.processes(plan, process, job).values()):
                if plan.over != "threads" or process.poll() is None:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        if plan.fault in ("pause", "pause_all", "chatty", "slow_disk") and code != 0:
            raise Failed(f"expected the run to go on, got code {code}\n{log.text()}")
        if code != 0 and not (plan.over == "threads" and plan.fault == "kill"):
            self.check_words(plan, log, code)
            told = f"failed after {time.monotonic() - disturbed:.1f} s, named"
        if not full:
            self.resume(plan, command, name)
        return told

    def check_words(self, plan, log, code):
        text = log.text()
        if not re.search(r"\brank \d", text) and plan.fault != "full_disk":
            raise Failed(f"code {code}, but no rank is named\n{text}")
        if not CAUSES.search(text):
            raise Failed(f"code {code}, but no cause is told\n{text}")
        if plan.fault in ("kill", "stop") and plan.over in ("shared", "gloo"):
            names = [line for line in text.splitlines() if line.startswith("starling: rank ")]
            if not names or not names[0].startswith(f"starling: rank {plan.victim} "):
                raise Failed(f"expected rank {plan.victim} in the headline, got {names}\n{text}")

    def resume(self, plan, command, name):
        process, log = self.start(plan, command)
        code = self.end(process, log, PATIENCE, "the resumed run")
        if code != 0:
            raise Failed(f"the resumed run ends with code {code}\n{log.text()}")
        quiet, own = self.undisturbed(), self.summary(name)
        keys = ["steps", "weights_hash"] if plan.strategy == "deterministic" else ["steps"]
        for key in keys:
            if own[key] != quiet[key]:
                raise Failed(f"expected {key} {quiet[key]} of the undisturbed run, got {own[key]}")
        shutil.rmtree(self.folder / name, ignore_errors=True)


def ways_here(program, asked):
    doctor = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
    ways = ["threads", "shared"]
    if re.search(r"(?mi)^ranks .*\bgloo\b", doctor):
        ways.append("gloo")
    if shutil.which("mpirun") and re.search(r"(?m)^ranks .*\bMPI\b", doctor):
        ways.append("mpi")
    return [way for way in ways if not asked or way in asked]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--over", action="append", help="only ranks started so: threads, shared, gloo, mpi")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only these faults")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    program = str(options.program.resolve())
    ways = ways_here(program, options.over)
    failed, skipped, done, seed = [], {}, 0, options.seed
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="starling-chaos-") as folder:
        chaos = Chaos(program, pathlib.Path(folder), options.epochs)
        chaos.undisturbed()
        while done < options.runs:
            plan = Plan(seed, ways)
            seed += 1
            if options.fault and plan.fault not in options.fault:
                continue
            done += 1
            try:
                print(f"{plan.seed}: {plan.text()}: {chaos.run(plan)}", flush=True)
            except Skipped as why:
                skipped[str(why)] = skipped.get(str(why), 0) + 1
                print(f"{plan.seed}: {plan.text()}: skipped, {why}", flush=True)
            except Failed as why:
                failed.append(plan.seed)
                again = " ".join(f"--over {way}" for way in options.over or [])
                print(f"{plan.seed}: {plan.text()}: FAILED: {why}")
                print(f"repeat it: {sys.argv[0]} {options.program} --seed {plan.seed} --runs 1 {again}", flush=True)
    print(f"{done} runs in {time.monotonic() - began:.0f} s, {len(failed)} failed {failed or ''}, skipped: {skipped or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
