"""JAX on the CPU, the whole step compiled: `python -m peer.jax_worker NET MODE PHASE THREADS BATCH` (serving.py)."""

import os
import sys

# XLA's thread pool has one thread for each core it may use, and is made when jax is imported.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[4])])

import jax
import jax.numpy as jnp
from jax import lax

from peer import functional
from peer.catalogue import LEARNING_RATE, LOSS_STEPS, MOMENTUM, with_batch
from peer.serving import Worker, serve

jax.config.update("jax_platforms", "cpu")
NORM_SHARE = 0.1  # of the newest batch in running statistics
EPS = 1e-5


class Layers(functional.Tape):
    relu, sigmoid, tanh = map(staticmethod, (jax.nn.relu, jax.nn.sigmoid, jnp.tanh))
    mean, transpose, reshape = map(staticmethod, (jnp.mean, jnp.transpose, jnp.reshape))

    def gelu(self, x):
        return jax.nn.gelu(x, approximate=False)

    def split(self, x, count):
        return jnp.split(x, count, axis=-1)

    def dense(self, x, bias=True):
        y = x @ self.weight().T
        return y + self.weight() if bias else y

    def conv(self, x, stride=1, padding=0, bias=True):
        pads = [(padding, padding)] * 2
        y = lax.conv_general_dilated(x, self.weight(), (stride, stride), pads,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y + self.weight() if bias else y

    def max_pool(self, x, kernel, stride, padding=0):
        pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, kernel, kernel, 1), (1, stride, stride, 1), pads)

    def flatten(self, x):
        return jnp.transpose(x, (0, 3, 1, 2)).reshape(x.shape[0], -1)

    def batch_norm(self, x):
        weight, bias, mean, var = self.weight(), self.weight(), next(self.buffers), next(self.buffers)
        if self.training:
            count = x.size // x.shape[-1]
            new_mean = jnp.mean(x, (0, 1, 2))
            new_var = jnp.mean(jnp.square(x - new_mean), (0, 1, 2))
            unbiased = new_var * count / (count - 1)
            self.moved += [mean + NORM_SHARE * (new_mean - mean), var + NORM_SHARE * (unbiased - var)]
            mean, var = new_mean, new_var
        return (x - mean) * (lax.rsqrt(var + EPS) * weight) + bias

    def layer_norm(self, x):
        mean = jnp.mean(x, -1, keepdims=True)
        var = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + EPS) * self.weight() + self.weight()

    def embedding(self, ids):
        return self.weight()[ids]

    def lstm(self, x):
        w_ih, w_hh, b_ih, b_hh = (self.weight() for _ in range(4))
        zeros = jnp.zeros((x.shape[1], w_hh.shape[1]), x.dtype)

        def cell(state, gates_x):
            h, c = state
            i, f, g, o = jnp.split(gates_x + h @ w_hh.T, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        return lax.scan(cell, (zeros, zeros), x @ w_ih.T + (b_ih + b_hh))[1]

    def causal_attention(self, q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def cross_entropy(logits, labels):
    logits = logits.reshape(-1, logits.shape[-1])
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels.reshape(-1, 1), axis=1)
    return -jnp.mean(picked)


def train_step(net):
    def loss_of(weights, buffers, x, y):
        t = Layers(weights, buffers, training=True)
        return cross_entropy(net(t, x), y), t.moved

    def step(state, x, y):
        weights, velocities, buffers = state
        (loss, moved), grads = jax.value_and_grad(loss_of, has_aux=True)(weights, buffers, x, y)
        velocities = [MOMENTUM * v + g for v, g in zip(velocities, grads)]
        return loss, ([w - LEARNING_RATE * v for w, v in zip(weights, velocities)], velocities, moved)
    return jax.jit(step, donate_argnums=0)


class JaxWorker(Worker):
    def version(self) -> str:
        return jax.__version__

    def load(self):
        """The state and the batch, in memory of their own: steps give theirs away."""
        weights, buffers = ([jnp.array(a) for a in arrays] for arrays in self.arrays[:2])
        x, y = (jnp.asarray(a) for a in self.arrays[2:])
        return (weights, [jnp.zeros_like(w) for w in weights], buffers), x, y

    def train(self):
        step = train_step(functional.NETS[self.net.name])
        state, x, y = self.load()
        held = [state]

        def one():
            loss, held[0] = jax.block_until_ready(step(held[0], x, y))
            return loss
        return one

    def forward(self):
        (weights, _, buffers), x, _ = self.load()
        net = functional.NETS[self.net.name]
        run = jax.jit(lambda w, b, x: net(Layers(w, b, training=False), x))
        return lambda: run(weights, buffers, x).block_until_ready()

    def losses(self, file: str) -> dict:
        self.arrays = functional.exported(file)
        step = self.train()
        return {"losses": [float(step()) for _ in range(LOSS_STEPS)]}

    def variants(self) -> dict:
        return {"jit": self.train() if self.phase == "train" else self.forward()}


def main() -> None:
    net, mode, phase, _, batch = sys.argv[1:6]
    serve(JaxWorker(with_batch(net, int(batch)), mode, phase))


if __name__ == "__main__":
    main()
