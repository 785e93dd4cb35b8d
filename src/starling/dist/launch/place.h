#pragma once

#include <functional>
#include <optional>
#include <string>

#include "starling/base/result.h"

namespace starling {

// A process's place among those of its run, and who told it.
struct WorldPlace {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // among the processes of this host
  int local_world = 1;
  std::string address{};  // host:port of the rendezvous; empty: the starter has its own (MPI)
  std::string starter{};  // starling, open_mpi, mpich, slurm, torchrun, kubernetes, flags; "alone"
};

// What was said on the command line; what is not said comes from the environment.
struct PlaceFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<std::string> address{};
};

using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_environment();

// The one reader of ranks: flags, our variables (STARLING_RANK, STARLING_WORLD, STARLING_ADDRESS, …), then those of
// Open MPI, MPICH, Slurm, torchrun and Kubernetes, the first that is there. A set of which some are missing is a
// failure that names them. Without any: alone.
Result<WorldPlace> find_place(const PlaceFlags& flags, const Variables& variables = process_environment());

}  // namespace starling
