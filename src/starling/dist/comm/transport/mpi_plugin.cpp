#include <dlfcn.h>

#include <functional>
#include <string>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/mpi_comm.h"

// Stands in for MPI where it is a library of its own (STARLING_MPI_PLUGIN), which is loaded when ranks ask for it: a
// package for machines whose MPI is not known must neither need one nor bring another one along.
namespace starling::dist {
namespace {

using MakeTransport = std::shared_ptr<Transport>* (*)(const MpiOptions&);
using WhenWaits = void (*)(std::function<void()>*);

struct Plugin {
  MakeTransport make = nullptr;
  WhenWaits when_waits = nullptr;
  std::string error;
};

// Beside the library that this code is in.
std::string plugin_path() {
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&has_mpi), &own);
  const std::string file = own.dli_fname ? own.dli_fname : "";
  return file.substr(0, file.rfind('/') + 1) + "libstarling_mpi.so";
}

Plugin load_plugin() {
  void* library =
      dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: MPI runs until the process ends
  if (!library) return {.error = dlerror()};
  auto* make = reinterpret_cast<MakeTransport>(dlsym(library, "starling_make_mpi_transport"));
  auto* when_waits = reinterpret_cast<WhenWaits>(dlsym(library, "starling_when_mpi_waits_at_exit"));
  return make && when_waits ? Plugin{make, when_waits, {}} : Plugin{.error = dlerror()};
}

const Plugin& plugin() {
  static const Plugin loaded = load_plugin();
  return loaded;
}

}  // namespace

bool has_mpi() { return plugin().make != nullptr; }

std::shared_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  check(has_mpi(), "[mpi] expected an MPI to run under mpirun or srun, such as Debian's libopenmpi3, got: {}",
        plugin().error);
  const std::unique_ptr<std::shared_ptr<Transport>> made(plugin().make(options));
  return *made;
}

void when_mpi_waits_at_exit(std::function<void()> called) {
  if (has_mpi()) plugin().when_waits(&called);
}

}  // namespace starling::dist
