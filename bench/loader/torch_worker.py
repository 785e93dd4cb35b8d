"""The same work as bench_loader by PyTorch's DataLoader: prints one line of JSON.

    python torch_worker.py CASE WORKERS BATCH SECONDS FOLDER MEGABYTES

Cases: memory (28 x 28 bytes in memory, normalised sample by sample), memory_batched (all samples of a batch in one
call: the fastest way that DataLoader knows), augmented (cropped, flipped, normalised), disk (shards of TFRecord through
a shuffle buffer), indexed (the same by number). Processor time is that of all its processes.
"""

import json
import os
import random
import struct
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

MEAN, STD, SIDE, IMAGES = 0.286, 0.353, 28, 60000


def normalise(image):
    return image.float().div_(255).sub_(MEAN).div_(STD)


class Memory(Dataset):
    def __init__(self):
        self.data = TensorDataset(torch.randint(0, 256, (IMAGES, 1, SIDE, SIDE), dtype=torch.uint8),
                                  torch.zeros(IMAGES, dtype=torch.int64))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        image, label = self.data[i]
        return normalise(image), label


class MemoryBatched(Memory):
    def __getitems__(self, rows):
        rows = torch.tensor(rows)
        return normalise(self.data.tensors[0][rows]), self.data.tensors[1][rows]


class Augmented(Memory):
    def __getitem__(self, i):
        image, label = self.data[i]
        image = torch.nn.functional.pad(image, (4, 4, 4, 4))
        top, left = random.randrange(9), random.randrange(9)
        image = image[:, top:top + SIDE, left:left + SIDE]
        if random.random() < 0.5:
            image = image.flip(2)
        return normalise(image), label


def sample_of(record):
    pixels = torch.frombuffer(bytearray(record[:SIDE * SIDE]), dtype=torch.uint8).view(1, SIDE, SIDE)
    return normalise(pixels), record[SIDE * SIDE]


class Disk(IterableDataset):
    """Checksums are passed over: this is what a plain reader in Python does."""

    def __init__(self, files, buffer=10000):
        self.files, self.buffer = files, buffer

    def records(self):
        info = torch.utils.data.get_worker_info()
        files = list(self.files)
        random.shuffle(files)
        for file in files[info.id::info.num_workers] if info else files:
            with open(file, "rb") as f:
                while head := f.read(12):
                    record = f.read(struct.unpack("<Q", head[:8])[0])
                    f.read(4)
                    yield record

    def __iter__(self):
        held = []
        for record in self.records():
            if len(held) < self.buffer:
                held.append(record)
                continue
            i = random.randrange(self.buffer)
            record, held[i] = held[i], record
            yield sample_of(record)
        random.shuffle(held)
        yield from map(sample_of, held)


class Indexed(Dataset):
    def __init__(self, files):
        self.files = [os.open(file, os.O_RDONLY) for file in files]
        self.size = SIDE * SIDE + 17
        self.counts = [os.fstat(file).st_size // self.size for file in self.files]
        self.places = [(f, i) for f, count in enumerate(self.counts) for i in range(count)]

    def __len__(self):
        return len(self.places)

    def __getitem__(self, i):
        file, record = self.places[i]
        return sample_of(os.pread(self.files[file], SIDE * SIDE + 1, record * self.size + 12))


def make(case, workers, batch, folder, megabytes):
    files = sorted(Path(folder).glob(f"pictures-{megabytes}-?.tfrecord"))
    options = {"batch_size": batch, "num_workers": workers, "persistent_workers": workers > 0}
    if case == "disk":
        return DataLoader(Disk(files), **options)
    data = {"memory": Memory, "memory_batched": MemoryBatched, "augmented": Augmented}
    if case == "memory_batched":
        return DataLoader(MemoryBatched(), shuffle=True, collate_fn=lambda made: made, **options)
    return DataLoader(data[case]() if case in data else Indexed(files), shuffle=True, **options)


def processor_seconds(loader):
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    workers = getattr(loader._iterator, "_workers", []) if loader._iterator is not None else []
    for pid in [os.getpid(), *[worker.pid for worker in workers]]:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / ticks


def endless(loader):
    while True:
        yield from loader


def main():
    case, workers, batch, seconds, folder, megabytes = sys.argv[1:]
    torch.set_num_threads(1)
    loader = make(case, int(workers), int(batch), folder, megabytes)
    batches = endless(loader)
    for _ in range(20):
        next(batches)
    start, processor, done, count = time.perf_counter(), processor_seconds(loader), 0, 0
    while time.perf_counter() - start < float(seconds):
        for _ in range(5):
            image, label = next(batches)
            done += image.nbytes + label.nbytes
            count += len(image)
    wall, used = time.perf_counter() - start, processor_seconds(loader) - processor
    print(json.dumps({"case": case, "workers": int(workers), "batch": int(batch), "mb_per_s": done / 1e6 / wall,
                      "mb_per_core_s": done / 1e6 / used, "samples_per_core_s": count / used}))


main()
