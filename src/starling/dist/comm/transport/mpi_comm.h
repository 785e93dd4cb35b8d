#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "starling/dist/comm/transport/transport_comm.h"

namespace starling::dist {

// Options of the MPI backend; rank and size are MPI's own.
struct MpiOptions {
  std::uint64_t epoch = 0;
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};    // default for calls that set none
  std::chrono::milliseconds join{60'000};         // deadline for all ranks to join
  std::shared_ptr<RankProgress> rank_progress{};  // of this rank, where it is supervised
  std::function<bool()> stop{};                   // polled while ranks join; true: throws Error; null: never
  std::size_t longest = std::size_t{1} << 30;     // bytes per MPI message; longer messages are split
};

// True if this build has MPI (libopenmpi-dev) and it can be loaded; otherwise the functions below throw.
bool has_mpi();

// Empty with MPI; otherwise the name of what is missing, with the reason or what brings it.
std::string missing_mpi();

// World of all processes started together by mpirun or srun. Collective, blocks until all have joined. The first call
// of a process initialises MPI, with threads; nothing else does. At exit, a process with status 0 waits for the others
// and finalises MPI; one with another status exits at once, and its starter ends the rest of the job. MPI cannot
// survive a lost process: its starter ends the others; a stopped one is for when_mpi_waits_at_exit to find.
std::shared_ptr<Transport> make_mpi_transport(const MpiOptions& options = {});

// Called, once, when this process is about to exit and begins to wait for the others, who may never come; neither that
// wait nor MPI's own has a deadline. Replaces the function given before.
void when_mpi_waits_at_exit(std::function<void()> called);

std::unique_ptr<Comm> make_mpi_comm(const MpiOptions& options = {}, const TransportCommOptions& how = {});

}  // namespace starling::dist
