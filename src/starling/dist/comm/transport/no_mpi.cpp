#include "starling/base/error.h"
#include "starling/dist/comm/transport/mpi_comm.h"

namespace starling::dist {

bool has_mpi() { return false; }

std::string missing_mpi() { return "MPI (apt install libopenmpi-dev openmpi-bin, then build again)"; }

std::shared_ptr<Transport> make_mpi_transport(const MpiOptions&) {
  fail("[mpi] expected a build with MPI (libopenmpi-dev) to run under mpirun or srun, got one without");
}

void when_mpi_waits_at_exit(std::function<void()>) {}

}  // namespace starling::dist
