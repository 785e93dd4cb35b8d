"""The JSON Schema of jobs accepts the examples and refuses broken ones, by the package jsonschema.

Usage: schema_test.py STARLING EXAMPLES. Ends with 77 (skipped) where jsonschema or PyYAML is not installed.
"""

import copy
import json
import pathlib
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def main() -> int:
    program, examples = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(subprocess.run([program, "print-config", "--schema"], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = []
    files = sorted(examples.glob("*.yaml"))
    for file in files:
        job = yaml.safe_load(file.read_text())
        failures += [f"{file.name}: {error.message}" for error in validator.iter_errors(job)]
        written = subprocess.run([program, "print-config", "--yaml", str(file)], check=True, capture_output=True).stdout
        failures += [f"{file.name} written out: {error.message}" for error in validator.iter_errors(yaml.safe_load(written))]

    good = yaml.safe_load((examples / "fashion_lenet.yaml").read_text())

    def broken(path: str, value: object) -> None:
        job = copy.deepcopy(good)
        *sections, key = path.split(".")
        at = job
        for section in sections:
            at = at.setdefault(section, {})
        at[key] = value
        if validator.is_valid(job):
            failures.append(f"accepted {path} = {value!r}")

    broken("modle", {})
    broken("model.name", "lennet")
    broken("model.classes", "ten")
    broken("data.batch", 0)
    broken("data.transforms", [{"name": "normalize"}])
    broken("optimizer.momentm", 0.9)
    broken("schedule", "cosin")
    broken("train.epochs", 1.5)
    broken("train.resume", "maybe")
    broken("distribute.workers", -1)
    missing = copy.deepcopy(good)
    del missing["model"]
    if validator.is_valid(missing):
        failures.append("accepted a job without a model")
    for job in ({"model": "lenet"}, {"model": "mlp", "data": "synthetic", "optimizer": "adam", "distribute": "easgd"}):
        failures += [f"{job}: {error.message}" for error in validator.iter_errors(job)]
    if validator.is_valid({"model": "lenet", "data": "csv"}):
        failures.append("accepted a bare name of a kind that needs options")

    print("\n".join(failures) if failures else f"{len(files)} examples accepted, broken ones refused")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
