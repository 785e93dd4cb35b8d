#include <utility>

#include "starling/dist/comm/transport/mpi_comm.h"

// Doors of libstarling_mpi.so; mpi_plugin.cpp of the library finds them by name and takes over what the first returns.
extern "C" std::shared_ptr<starling::dist::Transport>* starling_make_mpi_transport(
    const starling::dist::MpiOptions& options) {
  return new std::shared_ptr<starling::dist::Transport>(starling::dist::make_mpi_transport(options));
}

extern "C" void starling_when_mpi_waits_at_exit(std::function<void()>* called) {
  starling::dist::when_mpi_waits_at_exit(std::move(*called));
}
