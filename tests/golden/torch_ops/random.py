"""Random numbers are a function of Starling's own keys: PyTorch draws others."""

WHY = "random numbers of our own keys"
OPS = {name: WHY for name in
       ("uniform", "normal", "dropout", "bernoulli", "randint", "multinomial", "permutation", "shuffle")}
