"""What chaos.py disturbs: jobs, strategies, faults and moments, the plan that a seed stands for, and the count of what came
of plans."""

import random
import signal
import threading

HEARTBEAT = 0.5  # seconds, of the jobs
DEADLINE = 4.0
JOIN = 13.0  # the shortest time that ranks are given to join, and one that is stopped to end
SLACK = 5.0  # beyond the deadline, for a run to have ended

STEPS = 10  # of an epoch
MOST_SKIPPED = 10  # times the runs asked for

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
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}
MOMENTS = ["joining", "training", "saving", "evaluating", "ending"]

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
