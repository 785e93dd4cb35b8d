"""Updates of parameters by the rules of optimizers."""

RULES = ["momentum", "adagrad", "adadelta", "rmsprop", "adam", "adamax", "nadam", "lion", "lamb", "lars", "average"]
WITH_ROWS = ["momentum", "adagrad", "adam"]
WHY = "a step of an optimizer: generate_optim.py holds 100 of them against PyTorch or the paper"

OPS = {f"{rule}_update": WHY for rule in RULES} | {f"{rule}_update_rows": WHY for rule in WITH_ROWS}
