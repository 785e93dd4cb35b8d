#!/usr/bin/env python3
"""Disturbs real runs at random moments: none may stand still beyond the deadline, every error names a rank and a cause, and every
run in deterministic mode ends, after the same command has resumed it, with the weights of one that nobody disturbed.

  chaos.py build/ci/bin/starling --seed 1 --runs 20     # as ctest does
  chaos.py build/ci/bin/starling --seed 7 --runs 300    # by hand
  chaos.py build/ci/bin/starling --seed 17 --runs 1     # repeats run 17
  chaos.py build/ci/bin/starling --strategies ssp,poseidon --faults kill,stop --runs 40

Each run is a function of its seed: how ranks are started, the strategy, the fault, its victim and its moment. Faults:
kill (SIGKILL), stop (SIGSTOP for good), pause (SIGSTOP for a moment), pause_all (all ranks for longer than three
heartbeats), interrupt and terminate (SIGINT and SIGTERM, of the whole job), slow_disk (the threads that save stand still for
longer than the deadline), full_disk (a tiny tmpfs in a user namespace, which grows before the job resumes), link (one of the
victim's TCP connections is shut down), chatty (a rank's stderr is flooded). Moments: while ranks join, while they train,
while a checkpoint is written, while they evaluate, while they end. No run may leave a process or shared memory, and with
parameter servers each portion must have come to every key once. What this machine does not allow, or what came after
the end of the run, is told and is no run.
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
JOIN = 13.0  # the shortest time that ranks are given to join, and one that is stopped to end
SLACK = 5.0  # beyond the deadline, for a run to have ended
PATIENCE = 120.0  # for a run that goes on
MOST_SKIPPED = 10  # times the runs asked for

EPOCHS = 12
STEPS = 10  # of an epoch

# What a job says, how many ranks it may have, servers among them, and over what its ranks are started (empty: anything).
STRATEGIES = {
    "deterministic": ("strategy: allreduce, deterministic: true", (2, 3), 0, ()),
    "allreduce": ("strategy: allreduce", (2, 3), 0, ()),
    "local_sgd": ("strategy: local_sgd, every: 4", (2, 3), 0, ()),
    "easgd": ("strategy: easgd, every: 4", (2, 3), 0, ()),
    "easgd_async": ("strategy: easgd, every: 4, asynchronous: true", (2, 3), 0, ()),
    "hogwild": ("strategy: hogwild", (2, 3), 0, ("threads", "shared")),
    "bmuf": ("strategy: bmuf, every: 4", (2, 3), 0, ()),
    "emso": ("strategy: emso, inner: 2", (2, 3), 0, ()),
    "h2o": ("strategy: h2o, nodes: 2, every: 4", (2, 4), 0, ("threads", "shared")),
    "backup_workers": ("strategy: backup_workers, backups: 1", (2, 3), 0, ()),
    "zero": ("strategy: allreduce, zero: 3", (2, 3), 0, ()),
    "codec": ("strategy: allreduce, codec: one_bit", (2, 3), 0, ()),
    "groups": ("topology: {worker_groups: 2, workers_per_group: 2}, strategy: local_sgd, every: 4", (4,), 0, ()),
    "mesh": ("mesh: {data: 1, model: 2}, layout: {fc1.weight: {model: columns}}", (2,), 0, ()),
    "async": ("strategy: async", (3,), 1, ()),
    "ssp": ("strategy: ssp", (3,), 1, ()),
    "downpour": ("strategy: downpour, n_push: 2", (3,), 1, ()),
    "nexus": ('strategy: nexus, layers: [{name: "fc1.*", every: 3}]', (3,), 1, ()),
    "sync_server": ("strategy: sync_server", (3,), 1, ()),
    "spare_servers": ("strategy: async, server_backups: true", (4,), 2, ()),
    "async_codec": ("strategy: async, codec: one_bit", (3,), 1, ()),
    "kvstore": (
        "strategy: kvstore, update: async, topology: {worker_groups: 2, workers_per_group: 2}",
        (5,),
        1,
        ("threads", "shared", "gloo", "hosts"),
    ),
    "project_adam": ("strategy: project_adam", (3,), 1, ()),
    "poseidon": ("strategy: poseidon", (3,), 1, ()),
    "sandblaster": ("strategy: sandblaster, procedure: lbfgs", (3,), 1, ()),
    "streamed": ("strategy: allreduce", (2, 3), 0, ()),
}
NEED_ALL = {"sync_server", "poseidon"}  # whose servers count means of all workers
PATIENT = 25.0  # the deadline of jobs whose servers have backups: a stopped one is replaced after 10 s
FAULTS = [
    "kill",
    "stop",
    "pause",
    "pause_all",
    "interrupt",
    "terminate",
    "slow_disk",
    "full_disk",
    "link",
    "chatty",
]
INTERRUPTED = 130  # code of a run that has been asked to end
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}
MOMENTS = ["joining", "training", "saving", "evaluating", "ending"]
CAUSES = re.compile(
    r"was killed by SIG|has been silent|no progress|is lost|has died|lost its connection|exited on signal|closed|"
    r"No space left|exited with code|aborted|Connection reset|was lost|lost 127"
)

PICTURES = """model: {{name: mlp, hidden: [24]}}
data: {{folder: '{data}', batch: 24}}
"""
STREAM = """model: {{layers: [{{linear: {{out: 2000}}}}, {{relu: {{}}}}, {{linear: {{out: 2}}}}]}}
data: {{name: csv, streamed: true, label: kind, train: ['{data}/train-*.csv'], test: ['{data}/test.csv'], batch: 24}}
"""
JOB = """optimizer: {{lr: 0.02, momentum: 0.9}}
train: {{folder: '{run}', epochs: {epochs}, checkpoint_every: 10, export: false}}
distribute: {{threads: 2, heartbeat: {heartbeat}, deadline: {deadline}, {strategy}}}
monitor: {{tensorboard: false, scalars_every: 1}}
"""

libc = ctypes.CDLL(None, use_errno=True)


class Skipped(Exception):
    """This machine does not allow the fault."""


class Failed(Exception):
    """What the run did is not what it should."""


def threads_named(pid, name):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
        except OSError:  # it has ended
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


FLOOD = "so it goes on and on and on "


def words(log):
    """What the run itself has said."""
    return "\n".join(line for _, line in log.lines if FLOOD not in line)


def flood(pid):
    try:
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as out:
            for _ in range(400):
                out.write(FLOOD.encode() * 70 + b"\n")
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
        if fields and fields[0] != "Z":  # that one waits for its parent alone: after mpirun that is process 1, when it likes
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


def expect_nobody_left(process):
    """A run that has ended leaves no process behind."""
    end = time.monotonic() + 1  # for one that is ending
    while left := family_of(process.pid) - {process.pid}:
        if time.monotonic() > end:
            raise Failed(f"left processes {sorted(left)}")
        time.sleep(0.02)


def memory_left(before):
    """Files of shared memory that were not there before and that no process has mapped."""
    new = {name for name in os.listdir("/dev/shm") if not name.startswith("vader_segment")} - before  # those are Open MPI's
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text() if new else ""
        except OSError:  # it has ended
            continue
        new -= {name for name in new if f"/dev/shm/{name}" in text}
    return sorted(new)


def write_tables(folder):
    """Six shards, which two or three ranks can share."""
    noise = random.Random(7)

    def table(name, rows):
        lines = ["a,b,c,d,e,f,g,h,kind"]
        for _ in range(rows):
            values = [noise.randrange(10) for _ in range(8)]
            lines.append(",".join(map(str, [*values, int(values[0] > values[1])])))
        (folder / name).write_text("\n".join(lines) + "\n")

    for shard in range(6):
        table(f"train-{shard}.csv", 24 * STEPS // 6)
    table("test.csv", 480)


class Plan:
    """What a seed stands for."""

    def __init__(self, seed, ways, strategies):
        dice = random.Random(seed)
        self.seed = seed
        self.over = dice.choice(ways)
        fitting = [name for name in sorted(strategies) if not STRATEGIES[name][3] or self.over in STRATEGIES[name][3]]
        often = dice.random() < 0.3 and "deterministic" in strategies
        self.strategy = "deterministic" if often or not fitting else dice.choice(fitting)
        _, ranks, self.servers, _ = STRATEGIES[self.strategy]
        self.per_epoch = 1 if self.strategy == "sandblaster" else STEPS  # steps; of a procedure each is over all samples
        self.ranks = dice.choice(ranks)  # servers among them
        self.victim = dice.randrange(self.ranks)
        self.fault = dice.choice(FAULTS)
        self.moment = dice.choice(MOMENTS)
        if self.over == "mpi" and self.fault == "link":
            self.fault = "kill"  # most of its connections are to mpirun, which ends the job without a word of ours
        if self.fault == "slow_disk":
            self.moment = "training"
        self.late = self.moment == "ending"  # the victim may have ended before the fault
        self.share = dice.random()  # of the time that the moment lasts
        self.dice = dice

    @property
    def kills(self):
        """True if the fault takes a rank away that is a process of its own."""
        return self.fault in ("kill", "stop") and self.over != "threads"

    @property
    def spared(self):
        """True if the others can do without the victim: a worker beside servers, or a server with a backup."""
        if self.victim >= self.ranks - self.servers:
            return self.strategy == "spare_servers"
        return self.servers > 0 and self.victim > 0 and self.strategy not in NEED_ALL

    def text(self):
        who = "" if self.fault in (*SIGNALS, "full_disk", "pause_all") else f" of rank {self.victim}"
        return f"{self.over}, {self.strategy}, {self.ranks} ranks: {self.fault}{who} while {self.moment} ({self.share:.2f})"


def deadline_of(strategy):
    return PATIENT if strategy == "spare_servers" else DEADLINE


def joined_within(strategy):
    return max(JOIN, deadline_of(strategy))


def quiet_within(plan):
    """The longest time without a sign: under mpirun ranks that are alone with a dead one join twice, MPI's world and then ours."""
    joins = 2 if plan.over == "mpi" and plan.moment == "joining" else 1
    return joins * joined_within(plan.strategy) + SLACK


class Chaos:
    def __init__(self, program, folder, epochs):
        self.program = program
        self.folder = folder
        self.epochs = epochs
        kills.write_images(folder, "train", 24 * STEPS)
        kills.write_images(folder, "t10k", 480)
        write_tables(folder)
        self.hosts = None
        self.quiet = None
        self.lasted = 1.0

    def job(self, name, strategy):
        file = self.folder / f"{name}.yaml"
        text = ((STREAM if strategy == "streamed" else PICTURES) + JOB).format(
            data=self.folder,
            run=self.folder / name,
            epochs=self.epochs,
            heartbeat=HEARTBEAT,
            deadline=deadline_of(strategy),
            strategy=STRATEGIES[strategy][0] + (f", servers: {STRATEGIES[strategy][2]}" if STRATEGIES[strategy][2] else ""),
        )
        file.write_text(text)
        return str(file)

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def undisturbed(self):
        if self.quiet is None:
            command = [self.program, "train", self.job("quiet", "deterministic"), "--progress", "off"]
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.lasted = time.monotonic() - began
            if done.returncode != 0:
                raise Failed(f"the undisturbed run fails:\n{done.stderr}")
            self.quiet = self.summary("quiet")
        return self.quiet

    def command(self, plan, job):
        if plan.over == "threads":
            workers = str(plan.ranks - plan.servers)
            return [self.program, "train", job, "--set", f"distribute.workers={workers}", "--progress", "off"]
        if plan.over == "mpi":
            start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(plan.ranks)]
            return start + [self.program, "train", job, "--progress", "off"]
        launch = [self.program, "launch", "-n", str(plan.ranks - plan.servers)]
        if plan.servers:
            launch += ["--servers", str(plan.servers)]
        return launch + self.transport(plan) + [job, "--progress", "off"]

    def transport(self, plan):
        if plan.over != "hosts":
            return ["--backend", plan.over]
        file, shell = self.folder / f"hosts{plan.ranks}", self.folder / "shell"
        file.write_text(f"localhost slots=1\nbeta slots={plan.ranks - 1}\n")
        if not shell.exists():
            shell.write_text('#!/bin/sh\nexport STARLING_HOST="$1"\nshift\nexec /bin/sh -c "$*"\n')
            shell.chmod(0o755)
        return ["--hosts", str(file), "--ssh", str(shell), "--address", "127.0.0.1"]

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

    def log_of(self, name):
        """Step and name of the last event in the run's log; 0 and nothing before there is one."""
        try:
            with open(self.folder / name / "log.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                lines = file.read().split(b"\n")[:-1]
            last = json.loads(lines[-1])
            return last.get("step", 0), last.get("event", "")
        except (OSError, ValueError, IndexError):
            return 0, ""

    def has_come(self, plan, name):
        """Whether the moment of the fault, but for its share, is now."""
        folder = self.folder / name
        if plan.moment == "joining":
            return True
        if plan.moment == "saving":
            saved = folder / "checkpoints"
            return saved.is_dir() and any(".tmp" in entry.name for entry in saved.iterdir())
        step, event = self.log_of(name)
        if plan.moment == "training":
            return step > 0
        if plan.moment == "evaluating":
            return step > 0 and step % plan.per_epoch == 0 and event not in ("eval", "epoch")
        return step >= self.epochs * plan.per_epoch

    def await_moment(self, plan, process, job, name):
        """Process ids by rank once the moment of the fault has come; none: the run has ended before."""
        end = time.monotonic() + PATIENCE
        found, due = {}, time.monotonic()
        first = plan.dice.randrange(self.epochs // 2) if plan.moment in ("saving", "evaluating") else 0
        while time.monotonic() < end and process.poll() is None:
            if len(found) < plan.ranks and time.monotonic() >= due:
                found = self.processes(plan, process, job)
                due = time.monotonic() + 0.01
            there = plan.victim in found if plan.moment == "joining" else len(found) == plan.ranks
            if there and self.log_of(name)[0] >= first * plan.per_epoch and self.has_come(plan, name):
                lasts = {"joining": 0.3, "training": self.lasted, "saving": 0.005, "evaluating": 0.01, "ending": 0.1}
                time.sleep(plan.share * lasts[plan.moment])
                return found if process.poll() is None else None
            time.sleep(0.0005)
        return None

    def disturb(self, plan, process, found):
        """Makes the fault."""
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
        if plan.fault in SIGNALS:
            send(SIGNALS[plan.fault], [process.pid])
        if plan.fault == "chatty":
            flood(victim)
        if plan.fault == "link" and not shut_one_link(victim, plan.dice):
            raise Skipped("the victim has no connection")
        if plan.fault == "slow_disk":
            self.hold_savers(plan, process, found[0])

    def hold_savers(self, plan, process, pid):
        held = [StoppedThread(tid, 1.5 * DEADLINE) for tid in threads_named(pid, "starling-saver")]
        time.sleep(0.1)
        if not held:
            if process.poll() is not None or self.log_of(f"run{plan.seed}")[0] >= self.epochs * plan.per_epoch:
                raise Skipped("ended before the fault")
            raise Failed("found no thread that saves, which could be slowed")
        if held[0].error:
            raise Skipped(f"threads of other processes cannot be held ({held[0].error})")
        for one in held:
            one.join()

    def in_small_disk(self, command, name):
        """The command with a run folder that is nearly full, and once more when there is room. Its code is that of the second
        time; the first one's is told."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*words, f"mount -t tmpfs tmpfs '{folder}'"], capture_output=True, check=False).returncode:
            raise Skipped("no tmpfs in a user namespace here")
        script = (
            f"mount -t tmpfs -o size=192k tmpfs '{folder}' || exit 99; \"$@\"; echo \"chaos: ended with $?\"; "
            f"mount -o remount,size=64m '{folder}' || exit 99; \"$@\"; code=$?; "
            f"cp '{folder}/summary.json' '{folder}.summary.json'; exit $code"
        )
        return [*words, script, "sh", *command]

    def signs(self, log, name):
        """What changes while a run goes on."""
        try:
            size = (self.folder / name / "log.jsonl").stat().st_size
        except OSError:
            size = 0
        return size, len(log.lines), self.log_of(name)

    def end(self, plan, process, log, name, limit, what):
        """Waits for the end: until then, or as long as signs of progress come within the deadline."""
        began = moved = time.monotonic()
        last = None
        while process.poll() is None:
            now, sign = time.monotonic(), self.signs(log, name)
            if sign != last:
                last, moved = sign, now
            if now - began > (limit or PATIENCE) or now - moved > quiet_within(plan):
                kill_family(process)
                raise Failed(f"{what}: not ended after {now - began:.0f} s, no sign for {now - moved:.0f} s\n{words(log)}")
            time.sleep(0.02)
        log.close()
        return process.returncode

    def run(self, plan):
        """One disturbed run and its resumptions. Returns what happened, in a few words."""
        name = f"run{plan.seed}"
        job = self.job(name, plan.strategy)
        command = self.command(plan, job)
        if plan.fault == "full_disk":
            return self.run_on_full_disk(plan, command, name)
        process, log = self.start(plan, command)
        try:
            found = self.await_moment(plan, process, job, name)
            if found is None:
                raise Skipped("ended before the fault")
            plan.late |= self.log_of(name)[0] >= self.epochs * plan.per_epoch
            self.disturb(plan, process, found)
            disturbed = time.monotonic()
            # A run that fails does so within the deadline; one that goes on may take its time, but must not stand still.
            ends = (plan.kills and not plan.spared) or plan.fault in SIGNALS
            limit = (quiet_within(plan) if plan.moment == "joining" else deadline_of(plan.strategy) + SLACK) if ends else None
            code = self.end(plan, process, log, name, limit, "the disturbed run")
            expect_nobody_left(process)
        finally:
            kill_family(process)
        told = self.judge(plan, log, code, time.monotonic() - disturbed)
        if code == 0:
            self.check_portions(plan, name)
        self.resume(plan, command, name)
        return told

    def judge(self, plan, log, code, seconds):
        if plan.fault in SIGNALS:
            if code == 0 and seconds < 0.5:
                raise Skipped("ended before the fault")
            # A program that is not yet listening is ended by the signal itself.
            expected = {INTERRUPTED, *([0] if plan.late else []), *([-SIGNALS[plan.fault]] if plan.moment == "joining" else [])}
            if code not in expected and not (plan.over == "mpi" and code > 0):  # mpirun has a code of its own
                raise Failed(f"expected code {INTERRUPTED}, got {code}\n{words(log)}")
            return f"ended after {seconds:.1f} s"
        if plan.fault in ("pause", "pause_all", "chatty", "slow_disk") and code != 0:
            raise Failed(f"expected the run to go on, got code {code}\n{words(log)}")
        if plan.kills and code == 0 and not plan.spared and not plan.late:
            raise Failed(f"expected a failure, got code 0\n{words(log)}")
        if code == 0 or (plan.over == "threads" and plan.fault == "kill"):
            return "went on"
        self.check_words(plan, words(log), code)
        return f"failed after {seconds:.1f} s, named"

    def run_on_full_disk(self, plan, command, name):
        command = ["plain" if word == "off" else word for word in command]  # its log lies on that disk, out of our sight
        process, log = self.start(plan, self.in_small_disk(command, name))
        try:
            code = self.end(plan, process, log, name, PATIENCE, "the run on a full disk")
        finally:
            kill_family(process)
        before, mark, _ = words(log).partition("chaos: ended with ")
        first = int(words(log)[len(before) + len(mark) :].split()[0]) if mark else code
        if code == 99 or not mark:
            raise Failed(f"could not be tried, code {code}\n{words(log)}")
        self.check_words(plan, before, first)
        if code != 0:
            raise Failed(f"the resumed run ends with code {code}\n{words(log)}")
        shutil.copy(self.folder / f"{name}.summary.json", self.folder / name / "summary.json")
        self.check_summary(plan, name)
        return f"code {first}, named, and went on"

    def check_words(self, plan, text, code):
        if not re.search(r"\brank \d", text):
            raise Failed(f"code {code}, but no rank is named\n{text}")
        if not CAUSES.search(text):
            raise Failed(f"code {code}, but no cause is told\n{text}")
        if plan.moment == "joining" and re.search(
            rf"(ranks? \d+ (is|are) missing: (\d+, )*|not there: rank ){plan.victim}\b", text
        ):
            return  # it is not there yet, so that only those who wait for it can speak
        server = plan.victim - (plan.ranks - plan.servers)
        if plan.moment == "joining" and plan.strategy == "spare_servers" and f"answer of server {server} to a hello" in text:
            return  # its backup takes its place once it has been met
        if plan.kills and plan.over in ("shared", "gloo", "hosts"):
            names = [line for line in text.splitlines() if re.match(r"starling: (\w+( \d+)?, )?rank \d", line)]
            if not names or not re.match(rf"starling: (\w+( \d+)?, )?rank {plan.victim} ", names[0]):
                raise Failed(f"expected rank {plan.victim} in the headline, got {names}\n{text}")
        if plan.kills and plan.over == "mpi" and plan.moment != "joining" and not re.search(rf"\b(rank|server|worker) {plan.victim}\b", text):
            raise Failed(f"expected a word about rank {plan.victim}\n{text}")

    def resume(self, plan, command, name):
        process, log = self.start(plan, command)
        try:
            code = self.end(plan, process, log, name, None, "the resumed run")
            expect_nobody_left(process)
        finally:
            kill_family(process)
        if code != 0:
            raise Failed(f"the resumed run ends with code {code}\n{words(log)}")
        self.check_summary(plan, name)

    def check_portions(self, plan, name):
        """Every portion since the run last began is on every key of the servers, and none of them twice."""
        if plan.servers == 0 or plan.strategy in NEED_ALL or plan.strategy == "sandblaster":  # which counts evaluations
            return
        own = self.summary(name)
        events = [json.loads(line) for line in (self.folder / name / "log.jsonl").read_text().splitlines()]
        begun = [event["step"] for event in events if event["event"] == "begin"][-1]
        if begun == own["steps"]:
            return  # it had ended before
        counters = own["ranks"][0]["counters"]
        parts = 2 if plan.strategy == "kvstore" else plan.ranks - plan.servers  # of a batch: one for each group or worker
        expected = (own["steps"] - begun) * parts * counters["servers.keys"]
        if counters["servers.portions"] != expected:
            raise Failed(f"expected {expected:g} portions on keys, got {counters['servers.portions']:g}")

    def check_summary(self, plan, name):
        quiet, own = self.undisturbed(), self.summary(name)
        if own["steps"] != self.epochs * plan.per_epoch:
            raise Failed(f"expected {self.epochs * plan.per_epoch} steps, got {own['steps']}")
        if plan.strategy == "deterministic" and own["weights_hash"] != quiet["weights_hash"]:
            raise Failed(f"expected weights {quiet['weights_hash']} of the undisturbed run, got {own['weights_hash']}")
        if plan.fault != "full_disk":  # whose log is gone with the disk
            self.check_portions(plan, name)
        shutil.rmtree(self.folder / name, ignore_errors=True)


def ways_here(program, asked):
    doctor = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
    ways = ["threads", "shared"]
    if re.search(r"(?mi)^ranks .*\bgloo\b", doctor):
        ways += ["gloo", "hosts"]
    if shutil.which("mpirun") and re.search(r"(?m)^ranks .*\bMPI\b", doctor):
        ways.append("mpi")
    return [way for way in ways if not asked or way in asked]


class Tally:
    """What has become of the runs. Several threads may count."""

    def __init__(self, options, ways):
        self.options, self.ways = options, ways
        self.lock = threading.Lock()
        self.seed = options.seed
        self.begun = self.done = 0
        self.failed, self.skipped = [], {}

    def next(self):
        """The next plan; none: enough are under way."""
        with self.lock:
            most = MOST_SKIPPED * self.options.runs
            while self.begun < self.options.runs and sum(self.skipped.values()) < most:
                plan = Plan(self.seed, self.ways, self.options.strategies)
                self.seed += 1
                if plan.fault in self.options.faults and plan.strategy in self.options.strategies:
                    self.begun += 1
                    return plan
            return None

    def skip(self, why):
        with self.lock:
            self.begun -= 1
            self.skipped[why] = self.skipped.get(why, 0) + 1

    def count(self, plan, text, failed=False):
        with self.lock:
            self.done += 1
            if failed:
                self.failed.append(plan.seed)
            print(f"{plan.seed}: {plan.text()}: {text}", flush=True)


def disturb_runs(chaos, tally):
    again = " ".join([f"--over {way}" for way in tally.options.over or []])
    if len(tally.options.strategies) < len(STRATEGIES):
        again += " --strategies " + ",".join(tally.options.strategies)
    while (plan := tally.next()) is not None:
        try:
            tally.count(plan, chaos.run(plan))
        except Skipped as why:
            tally.skip(str(why))
        except Failed as why:
            repeat = f"{sys.argv[0]} {tally.options.program} --seed {plan.seed} --runs 1 {again}"
            tally.count(plan, f"FAILED: {why}\nrepeat it: {repeat}", failed=True)


def among(known):
    """Type of an option: names of these, with commas between them."""

    def read(text):
        names = text.split(",")
        if wrong := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {', '.join(wrong)}")
        return names

    return read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--over", action="append", help="only ranks started so: threads, shared, gloo, hosts, mpi")
    parser.add_argument("--faults", type=among(FAULTS), default=FAULTS, help="only these faults, as kill,stop")
    parser.add_argument("--strategies", type=among(sorted(STRATEGIES)), default=sorted(STRATEGIES), help="only these, as ssp,zero")
    parser.add_argument("--within", type=float, help="seconds that all runs together may take")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; most of a run is waiting")
    options = parser.parse_args()
    program = str(options.program.resolve())
    tally = Tally(options, ways_here(program, options.over))
    began = time.monotonic()
    memory = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory(prefix="starling-chaos-") as folder:
        chaos = Chaos(program, pathlib.Path(folder), options.epochs)
        chaos.undisturbed()
        threads = [threading.Thread(target=disturb_runs, args=(chaos, tally)) for _ in range(options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    failed, took = len(tally.failed), time.monotonic() - began
    print(f"{tally.done} runs in {took:.0f} s, {failed} failed {tally.failed or ''}")
    print(f"no runs: {tally.skipped or 'none'}")
    if left := memory_left(memory):
        print(f"FAILED: left in /dev/shm: {left}")
        failed += 1
    if options.within and took > options.within:
        print(f"FAILED: expected all runs within {options.within:g} s, got {took:.0f} s")
        failed += 1
    return 1 if failed or tally.done < options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
