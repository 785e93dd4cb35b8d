#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "starling/dist/comm/transport/transport_comm.h"

namespace starling {

// Rank and size are MPI's own.
struct MpiOptions {
  std::uint64_t epoch = 0;
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};  // of calls that give none
  std::chrono::milliseconds join{60'000};       // allowed until all ranks have come
  std::size_t longest = std::size_t{1} << 30;   // bytes that MPI is given at once; longer messages travel in parts
};

// Whether this build has MPI (libopenmpi-dev). Without it the functions below throw.
bool has_mpi();

// All processes that mpirun or srun started together: collective, blocks until all have come. The first call of a
// process initialises MPI, with threads; nothing else does. A process that exits with 0 then waits for the others to
// exit and finalises MPI; another goes at once, and its starter ends what is left of the job. MPI cannot live on
// without a lost process: its starter ends the others.
std::shared_ptr<Transport> make_mpi_transport(const MpiOptions& options = {});

std::unique_ptr<Comm> make_mpi_comm(const MpiOptions& options = {}, const TransportCommOptions& how = {});

}  // namespace starling
