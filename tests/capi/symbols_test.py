"""symbols_test.py LIBRARY HEADER LIST ABI: the library exports what the header declares and the list names, nothing else, each
under its version. A symbol that is gone or moved breaks programs: the list only grows. ABI, which the compiler holds against the
header, has each of them with its types, and every name of an enumeration with its value."""

import re
import subprocess
import sys

library, header, listed, abi = sys.argv[1:]
lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
exported = {line.split()[-1] for line in lines if line.split()[-2] != "A"}  # A: the versions themselves


def code(file):
    return re.sub(r"/\*.*?\*/", "", open(file).read(), flags=re.S)


declared = set(re.findall(r"\b(starling_\w+)\(", code(header)))
wanted = {line.strip() for line in open(listed) if line.strip() and not line.startswith("#")}

problems = [f"the library lacks {name}, which programs were linked against" for name in sorted(wanted - exported)]
problems += [f"the library exports {name}: add it to {listed} if it is to stay for ever" for name in sorted(exported - wanted)]
names = {name.partition("@@")[0] for name in exported}
problems += [f"the header declares {name}, which the library does not export" for name in sorted(declared - names)]
problems += [f"the library exports {name}, which the header does not declare" for name in sorted(names - declared)]
held = set(re.findall(r"\b(starling_\w+)\(", code(abi)))
problems += [f"{abi} lacks the types of {name}" for name in sorted(declared - held)]
values = set(re.findall(r"^\s*(STARLING_\w+) = ", code(header), flags=re.M))
problems += [f"{abi} lacks the value of {name}" for name in sorted(values - set(re.findall(r"VALUE\((STARLING_\w+),", code(abi))))]
if len(values) < 18:
    problems.append(f"expected the enumerations of {header}, found {len(values)} names")
print("\n".join(problems) or f"{len(wanted)} symbols")
sys.exit(bool(problems))
