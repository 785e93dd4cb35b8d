"""A training loop of one's own whose tests stop it at a checkpoint and go on from there: in one process and on ranks."""

import starling as sl


class CheckpointedLoop:
    """Compiled steps over a loader. `noise(shape)` is added to the samples, `after_step()` follows every step, `save()` stores where
    the loop is: random numbers, schedules and what else a kind of loop has are their matter."""

    def __init__(self, net, optimizer, loader, strategy=None):
        self.net, self.optimizer, self.loader = net, optimizer, loader
        self.program = sl.compile(self.train, strategy=strategy)
        self.step, self.losses = 0, {}

    def train(self, x, y):
        loss = sl.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def after_step(self):
        pass

    def run(self, epochs, stop=None):
        """Until the epochs are over, or until it has saved after step `stop`."""
        for _ in range(self.loader.epoch, epochs):
            for x, y in self.loader:
                self.losses[self.step] = self.program(x + self.noise(x.shape), y).item()
                self.step += 1
                self.after_step()
                if self.step == stop:
                    self.save()
                    return self
        return self
