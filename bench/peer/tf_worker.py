"""TensorFlow on the CPU, the step a tf.function: `python -m peer.tf_worker NET graph|xla PHASE THREADS BATCH`."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

from peer import functional
from peer.catalogue import LEARNING_RATE, LOSS_STEPS, MOMENTUM, with_batch
from peer.serving import Worker, serve

NORM_SHARE = 0.1  # of the newest batch in running statistics
EPS = 1e-5


class Layers(functional.Tape):
    relu, sigmoid, tanh = map(staticmethod, (tf.nn.relu, tf.nn.sigmoid, tf.nn.tanh))
    mean, transpose, reshape = map(staticmethod, (tf.reduce_mean, tf.transpose, tf.reshape))

    def gelu(self, x):
        return tf.nn.gelu(x, approximate=False)

    def split(self, x, count):
        return tf.split(x, count, axis=-1)

    def dense(self, x, bias=True):
        rows = tf.reshape(x, (-1, x.shape[-1]))
        y = tf.matmul(rows, self.weight(), transpose_b=True)
        y = tf.nn.bias_add(y, self.weight()) if bias else y
        return tf.reshape(y, (*x.shape[:-1], y.shape[-1]))

    def conv(self, x, stride=1, padding=0, bias=True):
        y = tf.nn.conv2d(x, self.weight(), stride, [[0, 0], [padding] * 2, [padding] * 2, [0, 0]])
        return tf.nn.bias_add(y, self.weight()) if bias else y

    def max_pool(self, x, kernel, stride, padding=0):
        if padding > 0:  # by hand: XLA's pooling has no padding of its own
            x = tf.pad(x, [[0, 0], [padding] * 2, [padding] * 2, [0, 0]], constant_values=x.dtype.min)
        return tf.nn.max_pool2d(x, kernel, stride, "VALID")

    def flatten(self, x):
        return tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))

    def batch_norm(self, x):
        weight, bias, mean, var = self.weight(), self.weight(), next(self.buffers), next(self.buffers)
        if not self.training:
            return tf.compat.v1.nn.fused_batch_norm(x, weight, bias, mean, var, EPS, is_training=False)[0]
        y, new_mean, new_var = tf.compat.v1.nn.fused_batch_norm(x, weight, bias, epsilon=EPS)  # an unbiased variance
        self.moved += [mean + NORM_SHARE * (new_mean - mean), var + NORM_SHARE * (new_var - var)]
        return y

    def layer_norm(self, x):
        mean, var = tf.nn.moments(x, -1, keepdims=True)
        return tf.nn.batch_normalization(x, mean, var, variance_epsilon=EPS, scale=self.weight(), offset=self.weight())

    def embedding(self, ids):
        return tf.gather(self.weight(), ids)

    def lstm(self, x):
        w_ih, w_hh, b_ih, b_hh = (tf.convert_to_tensor(self.weight()) for _ in range(4))
        steps, n, width = x.shape
        gates_x = tf.reshape(tf.matmul(tf.reshape(x, (-1, width)), w_ih, transpose_b=True) + (b_ih + b_hh),
                             (steps, n, w_ih.shape[0]))
        zeros = tf.zeros((n, w_hh.shape[1]))
        inputs = tf.TensorArray(tf.float32, steps, element_shape=(n, w_ih.shape[0])).unstack(gates_x)

        def cell(t, h, c, outputs):
            i, f, g, o = tf.split(inputs.read(t) + tf.matmul(h, w_hh, transpose_b=True), 4, axis=-1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            return t + 1, h, c, outputs.write(t, h)
        outputs = tf.TensorArray(tf.float32, steps, element_shape=zeros.shape)
        done = tf.while_loop(lambda t, *_: t < steps, cell, (0, zeros, zeros, outputs), maximum_iterations=steps)
        return tf.reshape(done[3].stack(), (steps, n, w_hh.shape[1]))

    def causal_attention(self, q, k, v):
        q, k, v = (tf.transpose(part, (0, 2, 1, 3)) for part in (q, k, v))
        scores = tf.matmul(q, k, transpose_b=True) * (q.shape[-1] ** -0.5)
        seen = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
        y = tf.matmul(tf.nn.softmax(tf.where(seen, scores, -1e30)), v)
        return tf.transpose(y, (0, 2, 1, 3))


def cross_entropy(logits, labels):
    logits, labels = tf.reshape(logits, (-1, logits.shape[-1])), tf.reshape(labels, (-1,))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


class TfWorker(Worker):
    def version(self) -> str:
        return tf.__version__

    def function(self):
        return tf.function(jit_compile=self.mode == "xla")

    def load(self):
        weights, buffers = ([tf.Variable(a) for a in arrays] for arrays in self.arrays[:2])
        x, y = (tf.constant(a) for a in self.arrays[2:])
        return weights, buffers, x, y

    def train(self):
        weights, buffers, x, y = self.load()
        velocities = [tf.Variable(tf.zeros_like(w)) for w in weights]
        net = functional.NETS[self.net.name]

        @self.function()
        def step(x, y):
            with tf.GradientTape() as tape:
                t = Layers(weights, buffers, training=True)
                loss = cross_entropy(net(t, x), y)
            for w, v, g in zip(weights, velocities, tape.gradient(loss, weights)):
                w.assign_sub(LEARNING_RATE * v.assign(MOMENTUM * v + tf.convert_to_tensor(g)))
            for buffer, moved in zip(buffers, t.moved):
                buffer.assign(moved)
            return loss
        return lambda: step(x, y).numpy()

    def forward(self):
        weights, buffers, x, _ = self.load()
        net = functional.NETS[self.net.name]
        run = self.function()(lambda x: net(Layers(weights, buffers, training=False), x))
        return lambda: run(x).numpy()

    def losses(self, file: str) -> dict:
        self.arrays = functional.exported(file)
        step = self.train()
        return {"losses": [float(step()) for _ in range(LOSS_STEPS)]}

    def variants(self) -> dict:
        return {self.mode: self.train() if self.phase == "train" else self.forward()}


def main() -> None:
    net, mode, phase, threads, batch = sys.argv[1:6]
    tf.config.threading.set_intra_op_parallelism_threads(int(threads))
    tf.config.threading.set_inter_op_parallelism_threads(1)
    serve(TfWorker(with_batch(net, int(batch)), mode, phase))


if __name__ == "__main__":
    main()
