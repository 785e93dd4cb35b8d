#include <fmt/format.h>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/comm/transport/plugin.h"

// Stands in for MPI where it is a library of its own (STARLING_MPI_PLUGIN).
namespace starling::dist {
namespace {

using MakeTransport = std::shared_ptr<Transport>* (*)(const MpiOptions&);
using WhenWaits = void (*)(std::function<void()>*);

constexpr const char* kMake = "starling_make_mpi_transport";
constexpr const char* kWhenWaits = "starling_when_mpi_waits_at_exit";

const Plugin& plugin() {
  static const Plugin loaded("libstarling_mpi.so", {kMake, kWhenWaits});
  return loaded;
}

}  // namespace

bool has_mpi() { return plugin().loaded(); }

std::string missing_mpi() { return has_mpi() ? "" : fmt::format("MPI ({})", plugin().error()); }

std::shared_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  check(has_mpi(), "[mpi] expected an MPI to run under mpirun or srun, such as that of Debian's openmpi-bin, got: {}",
        plugin().error());
  const auto make = plugin().function<MakeTransport>(kMake);
  const std::unique_ptr<std::shared_ptr<Transport>> made(make(options));
  return *made;
}

void when_mpi_waits_at_exit(std::function<void()> called) {
  if (has_mpi()) plugin().function<WhenWaits>(kWhenWaits)(&called);
}

}  // namespace starling::dist
