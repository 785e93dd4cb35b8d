"""What a wheel carries: the libraries that `import starling` loads, which may need no MPI, and those of what is loaded later, which may."""

import pathlib
import shutil
import subprocess

import pytest

from memory import SANITIZED

SCRIPT = pathlib.Path(__file__).parents[1] / "bundle_libraries.cmake"
MISSING = [tool for tool in ("cmake", "g++", "readelf", "objdump") if not shutil.which(tool)]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here"),
    pytest.mark.skipif(SANITIZED, reason="compilers would have to bear the runtimes of the sanitizers"),
]


def library(folder, name, needs=()):
    """A library of that name, which asks for others of the folder."""
    asked = ["-Wl,--no-as-needed", f"-Wl,-rpath,{folder}", f"-L{folder}", *(f"-l:{other}" for other in needs)]
    command = ["g++", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", f"-Wl,-soname,{name}", "-o", folder / name, *asked]
    subprocess.run(command, input="int none;", text=True, check=True, timeout=60)
    return folder / name


def bundle(folder, shared, plugins=()):
    """Runs the script as the wheel's installation does; returns what it carries then."""
    carried = folder / "carried"
    carried.mkdir()
    shutil.copy(shared, carried)
    settings = {"lib": carried, "shared": shared, "carried": "", "plugins": ";".join(map(str, plugins)), "readelf": "readelf"}
    options = [f"-D{name}={value}" for name, value in settings.items()]
    done = subprocess.run(["cmake", *options, "-P", SCRIPT], capture_output=True, text=True, timeout=60)
    return done, sorted(file.name for file in carried.iterdir())


@pytest.fixture
def built(tmp_path):
    folder = tmp_path / "built"
    folder.mkdir()
    library(folder, "libmpi.so.40")
    library(folder, "libwires.so.1")
    library(folder, "libgloo.so.0", ["libmpi.so.40", "libwires.so.1"])
    return folder


def test_a_library_that_needs_mpi_is_refused_by_name(built, tmp_path):
    done, _ = bundle(tmp_path, library(built, "libstarling.so.1", ["libgloo.so.0"]))
    assert done.returncode != 0 and "libgloo.so.0 (libmpi.so.40)" in " ".join(done.stderr.split()), done.stderr


def test_what_is_loaded_later_may_need_mpi_which_is_not_carried(built, tmp_path):
    shared = library(built, "libstarling.so.1", ["libwires.so.1"])
    done, carried = bundle(tmp_path, shared, [library(built, "libstarling_gloo.so", ["libgloo.so.0"])])
    assert done.returncode == 0, done.stderr
    assert carried == ["libgloo.so.0", "libstarling.so.1", "libwires.so.1"]
