#pragma once

#include <functional>
#include <optional>
#include <string>

#include "starling/base/result.h"

namespace starling::dist {

// Rank and world of this process, and the launcher that set them.
struct RankInfo {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // rank among the processes of this host
  int local_world = 1;
  std::string address{};  // host:port of the rendezvous; empty: the launcher has its own (MPI)
  std::string starter{};  // starling, open_mpi, mpich, slurm, torchrun, kubernetes, flags; "alone"
};

// Values of --rank, --world and --address; unset ones come from the environment.
struct ProcessFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<std::string> address{};
};

using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_environment();

// Determines rank and world from flags, Starling's variables (STARLING_RANK, STARLING_WORLD, STARLING_ADDRESS, …), then
// those of Open MPI, MPICH, Slurm, torchrun and Kubernetes; the first set found wins. An incomplete set is a failure
// that names the missing variables. None at all: a world of one.
Result<RankInfo> find_rank_info(const ProcessFlags& flags, const Variables& variables = process_environment());

}  // namespace starling::dist
