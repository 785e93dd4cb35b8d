#include "starling/dist/comm/transport/mpi_comm.h"

// Door of libstarling_mpi.so; mpi_plugin.cpp of the library finds it by name and takes over what it returns.
extern "C" std::shared_ptr<starling::dist::Transport>* starling_make_mpi_transport(
    const starling::dist::MpiOptions& options) {
  return new std::shared_ptr<starling::dist::Transport>(starling::dist::make_mpi_transport(options));
}
