"""Convolutions of well-known networks, pass by pass, beside PyTorch: interleaved rounds in one run, the least time of each.

    python bench/conv_compare.py build/release/bench/bench_conv [--net resnet18 ...] [--threads 1 2] [--rounds 3]

Prints one row a layer and pass: milliseconds of both and their ratio (above 1: PyTorch takes longer). One thread is
timed by its processor time, which other programs on the machine disturb less; several by the clock.
"""

import argparse
import subprocess
import time

from peer.built import built, torch_or_end

torch = torch_or_end()
F = torch.nn.functional

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
    # The 3 x 3 layers at stride 1 and the first layer are those of resnet18.
    "resnet50": (
        16,
        [(1, 3, 224, 64, 7, 2, 3, 1), (3, 64, 56, 64, 3, 1, 1, 1), (3, 128, 28, 128, 3, 1, 1, 1),
         (5, 256, 14, 256, 3, 1, 1, 1), (2, 512, 7, 512, 3, 1, 1, 1), (1, 256, 28, 256, 3, 2, 1, 1),
         (1, 512, 14, 512, 3, 2, 1, 1), (1, 64, 56, 64, 1, 1, 0, 1), (4, 64, 56, 256, 1, 1, 0, 1),
         (2, 256, 56, 64, 1, 1, 0, 1), (1, 256, 56, 128, 1, 1, 0, 1), (1, 128, 56, 128, 3, 2, 1, 1),
         (4, 128, 28, 512, 1, 1, 0, 1), (1, 256, 56, 512, 1, 2, 0, 1), (3, 512, 28, 128, 1, 1, 0, 1),
         (1, 512, 28, 256, 1, 1, 0, 1), (6, 256, 14, 1024, 1, 1, 0, 1), (5, 1024, 14, 256, 1, 1, 0, 1),
         (1, 512, 28, 1024, 1, 2, 0, 1), (1, 1024, 14, 512, 1, 1, 0, 1), (3, 512, 7, 2048, 1, 1, 0, 1),
         (2, 2048, 7, 512, 1, 1, 0, 1), (1, 1024, 14, 2048, 1, 2, 0, 1)],
    ),
    "mobilenet": (
        16,
        [(1, 32, 112, 32, 3, 1, 1, 32), (1, 96, 112, 96, 3, 2, 1, 96), (1, 144, 56, 144, 3, 1, 1, 144),
         (1, 384, 14, 384, 3, 1, 1, 384), (1, 240, 28, 240, 5, 1, 2, 240), (1, 960, 7, 960, 3, 1, 1, 960)],
    ),
}
PASSES = ["forward", "data", "weight"]


class Ours:
    def __init__(self, program):
        self.program = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, op, shapes, attrs, threads, repeats, dtype="f32"):
        text = " ".join("x".join(map(str, shape)) for shape in shapes)
        fields = [op, dtype, str(threads), str(repeats), text] + [f"{name}={value}" for name, value in attrs.items()]
        print(";".join(fields), file=self.program.stdin, flush=True)
        least, _, kernel = self.program.stdout.readline().split()
        return float(least), kernel

    def close(self):
        self.program.stdin.close()
        self.program.wait()


def timed(f, repeats, threads):
    clock = time.thread_time if threads == 1 else time.perf_counter
    f()
    best = 1e9
    for _ in range(repeats):
        start = clock()
        f()
        best = min(best, clock() - start)
    return best * 1e3


def measure(args, f, ask, threads):
    """The least of a few rounds in which both take turns."""
    theirs, mine = timed(f, 1, threads), 1e9
    repeats = max(1, min(200, int(args.milliseconds / theirs)))
    for _ in range(args.rounds):
        theirs = min(theirs, timed(f, repeats, threads))
        least, kernel = ask(repeats)
        mine = min(mine, least)
    return mine, theirs, kernel


def show(text, name, threads, mine, theirs, kernel=""):
    print(f"{text:<46}{name:<9}{threads:>7}{mine:>10.3f}{theirs:>10.3f}{theirs / mine:>11.2f}  {kernel}", flush=True)


def compare_layers(args, ours, net, threads):
    batch, layers = NETS[net]
    total = {}
    for count, c, size, out, k, stride, padding, groups in layers:
        x, w = torch.randn(batch, c, size, size), torch.randn(out, c // groups, k, k)
        dy = torch.randn_like(torch.conv2d(x, w, None, stride, padding, 1, groups))
        window = {"stride": [stride] * 2, "padding": [padding] * 2, "groups": groups}
        rest = (None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
        backward = torch.ops.aten.convolution_backward
        calls = {
            "forward": (lambda: torch.conv2d(x, w, None, stride, padding, 1, groups), "conv2d", [x, w], {}),
            "data": (lambda: backward(dy, x, w, *rest, [True, False, False]), "conv2d_backward_input", [dy, w],
                     {"shape": list(x.shape)}),
            "weight": (lambda: backward(dy, x, w, *rest, [False, True, False]), "conv2d_backward_weight", [dy, x],
                       {"shape": list(w.shape)}),
        }
        for name in args.passes:
            f, op, operands, more = calls[name]
            shapes = [t.shape for t in operands]
            mine, theirs, kernel = measure(
                args, f, lambda repeats: ours.ask(op, shapes, {**window, **more}, threads, repeats), threads)
            sums = total.setdefault(name, [0, 0])
            sums[0] += count * mine
            sums[1] += count * theirs
            show(f"{net} {c}x{size}^2 -> {out}, {k}x{k}/{stride}" + (f", groups {groups}" if groups > 1 else ""), name,
                 threads, mine, theirs, kernel)
    for name, (mine, theirs) in total.items():
        show(f"{net}, all of batch {batch}", name, threads, mine, theirs)


def other_ops():
    """(name, op, shapes, attributes, the same in PyTorch, dtype) of the rest of the family."""
    return [
        ("64x4000 -> 64, 9", "conv1d", [(8, 64, 4000), (64, 64, 9)], {"padding": 4},
         lambda x, w: F.conv1d(x, w, padding=4), "f32"),
        ("16x16x56^2 -> 64, 3x3x3", "conv3d", [(2, 16, 16, 56, 56), (64, 16, 3, 3, 3)], {"padding": [1, 1, 1]},
         lambda x, w: F.conv3d(x, w, padding=1), "f32"),
        ("256x14^2 -> 128, 4x4/2", "conv_transpose2d", [(16, 256, 14, 14), (256, 128, 4, 4)],
         {"stride": [2, 2], "padding": [1, 1]}, lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), "f32"),
        ("64x56^2 -> 64, 3x3 in f64", "conv2d", [(4, 64, 56, 56), (64, 64, 3, 3)], {"padding": [1, 1]},
         lambda x, w: F.conv2d(x, w, padding=1), "f64"),
        ("64x56^2, 3x3", "unfold", [(16, 64, 56, 56)], {"kernel": [3, 3], "padding": [1, 1]},
         lambda x: F.unfold(x, 3, padding=1), "f32"),
        ("64x56^2, 3x3", "fold", [(16, 576, 3136)], {"size": [56, 56], "kernel": [3, 3], "padding": [1, 1]},
         lambda x: F.fold(x, (56, 56), 3, padding=1), "f32"),
        ("32x14^2 -> 32, 3x3", "local_conv2d", [(32, 32, 14, 14), (144, 32, 288)], {"kernel": [3, 3]},
         lambda x, w: torch.einsum("nkp,pok->nop", F.unfold(x, 3), w), "f32"),
    ]


def compare_others(args, ours, threads):
    for text, op, shapes, attrs, f, dtype in other_ops():
        operands = [torch.randn(shape, dtype=torch.float64 if dtype == "f64" else torch.float32) for shape in shapes]
        mine, theirs, kernel = measure(args, lambda: f(*operands),
                                       lambda repeats: ours.ask(op, shapes, attrs, threads, repeats, dtype), threads)
        show(f"{op} {text}", "forward", threads, mine, theirs, kernel)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--net", nargs="*", default=[*NETS, "others"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", nargs="*", default=PASSES)
    parser.add_argument("--milliseconds", type=float, default=60, help="of one round of one side")
    args = parser.parse_args()
    ours = Ours(built(args.program))
    print(f"{'layer':<46}{'pass':<9}{'threads':>7}{'ours ms':>10}{'torch ms':>10}{'torch/ours':>11}  kernel")
    for net in args.net:
        for threads in args.threads:
            torch.set_num_threads(threads)
            if net == "others":
                compare_others(args, ours, threads)
            else:
                compare_layers(args, ours, net, threads)
    ours.close()


if __name__ == "__main__":
    main()
