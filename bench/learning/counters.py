"""Starling's counter-based random numbers as far as data needs them: which words are tested with, in which order samples
come (src/starling/base/philox.h, data/loading/split.cpp, data/loading/sampler.cpp). So both sides train on the same batches."""

import torch

LOW32, LOW64 = (1 << 32) - 1, (1 << 64) - 1
SPLITTER, SAMPLERS = 0x73706C6974746572, 0x73616D706C657273
ROUNDS = 8


def mix64(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & LOW64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & LOW64
    return x ^ x >> 31


def philox(seed, step, site, block):
    """Four words of 32 bits: those of one block of the stream of (seed, step, site)."""
    key = mix64(mix64(seed + 0x9E3779B97F4A7C15 & LOW64) + site & LOW64)
    k0, k1 = key & LOW32, key >> 32
    c0, c1, c2, c3 = block & LOW32, block >> 32, step & LOW32, step >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & LOW32, p0 >> 32 ^ c3 ^ k1, p0 & LOW32
        k0, k1 = k0 + 0x9E3779B9 & LOW32, k1 + 0xBB67AE85 & LOW32
    return c0, c1, c2, c3


def share_of(text, seed):
    """A number in [0, 1) that depends on the bytes and the seed alone."""
    code = 0xCBF29CE484222325  # FNV-1a
    for byte in text:
        code = (code ^ byte) * 0x100000001B3 & LOW64
    index = code >> 1
    words = philox(seed, 0, SPLITTER, index >> 1)
    at = index % 2 * 2
    return ((words[at] | words[at + 1] << 32) >> 11) * 2.0**-53


def mix32(x):
    x = (x ^ x >> 16) * 0x7FEB352D & LOW32
    x = (x ^ x >> 15) * 0x846CA68B & LOW32  # wraps round above 2^63, which leaves the low bits as they are
    return x ^ x >> 16


def epoch_order(size, seed, epoch):
    """The samples of an epoch in their order, i64[size]: a Feistel network, walked until it lands below the size."""
    half = 1
    while 1 << 2 * half < size:
        half += 1
    mask = (1 << half) - 1
    keys = [word for block in range(ROUNDS // 4) for word in philox(seed, epoch, SAMPLERS, block)]
    order = torch.arange(size)
    beyond = torch.arange(size)
    while len(beyond):
        left, right = order[beyond] >> half, order[beyond] & mask
        for key in keys:
            left, right = right, left ^ (mix32(right + key & LOW32) & mask)
        order[beyond] = left << half | right
        beyond = beyond[order[beyond] >= size]
    return order
