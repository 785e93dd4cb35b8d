"""What the PyTorch scripts share: a job's settings, and the loop that `starling train` runs for them."""

import argparse
import fnmatch
import json
import math
import re
import struct
import sys
import time

import torch

from counters import epoch_order


def arguments(about, data, several=False):
    """--job, --seed, --threads, --steps and the data; returns them with the job as nested dicts."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--job", required=True, help="what `starling print-config JOB --json` prints")
    parser.add_argument("--" + data, nargs="+" if several else None, help="instead of the job's")
    parser.add_argument("--seed", type=int, help="instead of the job's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="end after so many")
    parser.add_argument("--weights", help="begin with those of this checkpoint of Starling, and tell all losses")
    args = parser.parse_args()
    job = read_job(args.job)
    if args.seed is not None:
        job["train"]["seed"] = args.seed
    if args.steps is not None:
        job["train"]["steps"] = args.steps
    refuse_unknown(job)
    torch.set_num_threads(args.threads)
    torch.manual_seed(job["train"]["seed"])
    return args, job


def read_job(path):
    """{"train.seed": {"value": 1, "from": …}, …} as {"train": {"seed": 1, …}, …}"""
    job = {}
    with open(path, encoding="utf-8") as file:
        for key, entry in json.load(file).items():
            section, _, name = key.partition(".")
            if name:
                job.setdefault(section, {})[name] = entry["value"]
    return job


def refuse_unknown(job):
    """Settings that these scripts would pass over in silence."""
    train, data, schedule = job["train"], job["data"], job["schedule"]
    known = {
        "train.accumulate": train["accumulate"] == 1,
        "train.precision": train["precision"] == "f32",
        "train.clip_value": train["clip_value"] == 0,
        "train.early_stop": train["early_stop"] is None,
        "train.average": train["average"] is None,
        "train.objective": train["objective"] is None,
        "data.augment": not data["augment"],
        "data.transforms": not data["transforms"],
        "data.labels": data["labels"] == 0,
        "data.valid_share": data["valid_share"] == 0,
        "data.shuffle": data["shuffle"],
        "optimizer.name": job["optimizer"]["name"] in ("adam", "adamw"),
        "schedule": schedule["name"] == "cosine" and schedule["length"] == 0 and schedule["unit"] == "step",
        "distribute.workers": job["distribute"]["workers"] == 1,
    }
    for key, fine in known.items():
        if not fine:
            sys.exit(f"expected a value of {key} that this script knows, got another")


def load_weights(net, path):
    """Takes the parameters out of a checkpoint's tensors.safetensors. Names differ in LSTMs and wrappers only."""
    with open(path, "rb") as file:
        content = file.read()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    found, wanted = {}, net.state_dict()
    for name, entry in json.loads(content[8:begin]).items():
        name = re.sub(r"(body|attention)\.", "", name)
        name = re.sub(r"\bw_([ih]h)", r"weight_\1", re.sub(r"\bb_([ih]h)", r"bias_\1", name))
        name = re.sub(r"_([ih]h)$", r"_\1_l0", name)
        if name in wanted:
            first, last = (begin + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(content[first:last]), dtype=torch.float32)
            found[name] = values.view(entry["shape"])
    net.load_state_dict(found)


def make_optimizer(net, options):
    """Each parameter belongs to the first group whose pattern matches its name."""
    rules = options["groups"] + [{"match": "*", "lr_scale": 1, "weight_decay": None}]
    groups = [{"params": [], "scale": rule["lr_scale"]} for rule in rules]
    for group, rule in zip(groups, rules):
        if rule["weight_decay"] is not None:
            group["weight_decay"] = rule["weight_decay"]
    for name, parameter in net.named_parameters():
        first = next(i for i, rule in enumerate(rules) if fnmatch.fnmatchcase(name, rule["match"]))
        groups[first]["params"].append(parameter)
    kind = torch.optim.AdamW if options["name"] == "adamw" else torch.optim.Adam
    return kind([group for group in groups if group["params"]], lr=options["lr"],
                betas=(options["beta1"], options["beta2"]), eps=options["eps"], weight_decay=options["weight_decay"],
                amsgrad=options["amsgrad"])


def rate_factor(step, steps, schedule):
    """Half a cosine from 1 to `end` behind a rise from warmup.start."""
    warmup = schedule["warmup"]["steps"]
    share = min(max(step - warmup, 0) / max(steps - warmup, 1), 1)
    factor = schedule["end"] + (1 - schedule["end"]) * (1 + math.cos(math.pi * share)) / 2
    if warmup == 0:
        return factor
    start = schedule["warmup"]["start"]
    return factor * (start + (1 - start) * min(step / warmup, 1))


def fit(net, size, loss_of, evaluate, job, weights=None):
    """Trains on samples 0 … size - 1; loss_of(rows) is the mean loss of a batch. Prints what the last evaluation gave;
    there is one at the end of each epoch, as in `starling train`."""
    train, data = job["train"], job["data"]
    batch = data["batch"]
    per_epoch = size // batch if data["drop_last"] else -(-size // batch)
    steps = per_epoch * train["epochs"]
    if train["steps"]:
        steps = min(steps, train["steps"])
    losses = []
    if weights:
        load_weights(net, weights)
    optimizer = make_optimizer(net, job["optimizer"])
    begin, step, found = time.monotonic(), 0, {}
    while step < steps:
        order = epoch_order(size, train["seed"], step // per_epoch)
        net.train()
        for rows in order.split(batch)[: min(per_epoch, steps - step)]:
            for group in optimizer.param_groups:
                group["lr"] = job["optimizer"]["lr"] * group["scale"] * rate_factor(step, steps, job["schedule"])
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(rows)
            loss.backward()
            if train["clip_norm"] > 0:
                torch.nn.utils.clip_grad_norm_(net.parameters(), train["clip_norm"])
            optimizer.step()
            if weights:
                losses.append(loss.item())
            step += 1
        net.eval()
        with torch.no_grad():
            found = evaluate()
        print(f"step {step}/{steps}: {found}", file=sys.stderr, flush=True)
    print(json.dumps({"net": job["model"]["name"], "seed": train["seed"], "steps": step, **found,
                      "seconds": round(time.monotonic() - begin, 1), **({"losses": losses} if weights else {})}))
