"""Convolutions of well-known networks, pass by pass, beside PyTorch: interleaved rounds in one run, the least time of each.

    python bench/conv_compare.py build/release/bench/bench_conv [--net resnet18] [--threads 1 2] [--rounds 5]

Prints one row a layer and pass: milliseconds of both and their ratio (above 1: PyTorch takes longer). One thread is
timed by its processor time, which other programs on the machine disturb less; several by the clock.
"""

import argparse
import subprocess
import time

import torch

# name: (batch, [(count in the network, channels, size, out, kernel, stride, padding, groups)])
NETS = {
    "lenet": (64, [(1, 1, 28, 20, 5, 1, 0, 1), (1, 20, 12, 50, 5, 1, 0, 1)]),
    "alexnet": (
        64,
        [(1, 3, 224, 64, 11, 4, 2, 1), (1, 64, 27, 192, 5, 1, 2, 1), (1, 192, 13, 384, 3, 1, 1, 1),
         (1, 384, 13, 256, 3, 1, 1, 1), (1, 256, 13, 256, 3, 1, 1, 1)],
    ),
    "resnet18": (
        16,
        [(1, 3, 224, 64, 7, 2, 3, 1), (4, 64, 56, 64, 3, 1, 1, 1), (1, 64, 56, 128, 3, 2, 1, 1),
         (3, 128, 28, 128, 3, 1, 1, 1), (1, 64, 56, 128, 1, 2, 0, 1), (1, 128, 28, 256, 3, 2, 1, 1),
         (3, 256, 14, 256, 3, 1, 1, 1), (1, 128, 28, 256, 1, 2, 0, 1), (1, 256, 14, 512, 3, 2, 1, 1),
         (3, 512, 7, 512, 3, 1, 1, 1), (1, 256, 14, 512, 1, 2, 0, 1)],
    ),
    "resnet50": (
        16,
        [(1, 64, 56, 64, 1, 1, 0, 1), (4, 64, 56, 256, 1, 1, 0, 1), (2, 256, 56, 64, 1, 1, 0, 1),
         (1, 256, 56, 128, 1, 1, 0, 1), (1, 128, 56, 128, 3, 2, 1, 1), (4, 128, 28, 512, 1, 1, 0, 1),
         (1, 256, 56, 512, 1, 2, 0, 1), (3, 512, 28, 128, 1, 1, 0, 1), (1, 512, 28, 256, 1, 1, 0, 1),
         (6, 256, 14, 1024, 1, 1, 0, 1), (5, 1024, 14, 256, 1, 1, 0, 1), (1, 512, 28, 1024, 1, 2, 0, 1),
         (1, 1024, 14, 512, 1, 1, 0, 1), (3, 512, 7, 2048, 1, 1, 0, 1), (2, 2048, 7, 512, 1, 1, 0, 1)],
    ),
    "mobilenet": (
        16,
        [(1, 32, 112, 32, 3, 1, 1, 32), (1, 96, 112, 96, 3, 2, 1, 96), (1, 144, 56, 144, 3, 1, 1, 144),
         (1, 384, 14, 384, 3, 1, 1, 384), (1, 240, 28, 240, 5, 1, 2, 240), (1, 960, 7, 960, 3, 1, 1, 960)],
    ),
}


def torch_pass(name, x, w, dy, stride, padding, groups):
    args = (None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
    if name == "forward":
        return lambda: torch.conv2d(x, w, None, stride, padding, 1, groups)
    mask = [name == "data", name == "weight", False]
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, *args, mask)


def timed(f, repeats, threads):
    clock = time.thread_time if threads == 1 else time.perf_counter
    f()
    best = 1e9
    for _ in range(repeats):
        start = clock()
        f()
        best = min(best, clock() - start)
    return best * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--net", nargs="*", default=list(NETS))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", nargs="*", default=["forward", "data", "weight"])
    parser.add_argument("--milliseconds", type=float, default=60, help="of one round of one side")
    args = parser.parse_args()
    ours = subprocess.Popen([args.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(name, batch, layer, threads, repeats):
        _, c, size, out, k, stride, padding, groups = layer
        print(name, batch, c, size, size, out, k, k, stride, padding, 1, groups, threads, repeats, file=ours.stdin,
              flush=True)
        return ours.stdout.readline().split()

    print(f"{'layer':<44}{'pass':<9}{'threads':>7}{'ours ms':>10}{'torch ms':>10}{'torch/ours':>11}  kernel")
    for net in args.net:
        batch, layers = NETS[net]
        for threads in args.threads:
            torch.set_num_threads(threads)
            total = {}
            for layer in layers:
                count, c, size, out, k, stride, padding, groups = layer
                x, w = torch.randn(batch, c, size, size), torch.randn(out, c // groups, k, k)
                dy = torch.randn_like(torch.conv2d(x, w, None, stride, padding, 1, groups))
                for name in args.passes:
                    f = torch_pass(name, x, w, dy, stride, padding, groups)
                    mine, theirs = 1e9, timed(f, 1, threads)
                    repeats = max(1, min(200, int(args.milliseconds / theirs)))
                    for _ in range(args.rounds):
                        theirs = min(theirs, timed(f, repeats, threads))
                        reply = ask(name, batch, layer, threads, repeats)
                        mine = min(mine, float(reply[0]))
                    sums = total.setdefault(name, [0, 0])
                    sums[0] += count * mine
                    sums[1] += count * theirs
                    text = f"{net} {c}x{size}^2 -> {out}, {k}x{k}/{stride}" + (f", groups {groups}" if groups > 1 else "")
                    print(f"{text:<44}{name:<9}{threads:>7}{mine:>10.3f}{theirs:>10.3f}{theirs / mine:>11.2f}  {reply[2]}",
                          flush=True)
            for name, (mine, theirs) in total.items():
                print(f"{net + ', all of batch ' + str(batch):<44}{name:<9}{threads:>7}{mine:>10.3f}{theirs:>10.3f}"
                      f"{theirs / mine:>11.2f}", flush=True)
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
