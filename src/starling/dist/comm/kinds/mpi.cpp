#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/transport/mpi_comm.h"

namespace starling::dist {
namespace {

// Ranks and labels are MPI's own.
std::unique_ptr<Comm> make(const std::shared_ptr<Store>&, const BackendOptions& options) {
  return make_mpi_comm({.epoch = options.epoch,
                        .deadline = options.call_deadline,
                        .join = options.join_deadline,
                        .rank_progress = options.rank_progress,
                        .stop = options.stop},
                       reducing_by(options.all_reduce));
}

// True if MPI started this process and this build supports it. srun counts only with PMIx.
bool started(const RankInfo& info, const Variables& variables) {
  const bool by_mpi = info.starter == "open_mpi" || (info.starter == "slurm" && variables("PMIX_RANK"));
  return by_mpi && has_mpi();  // in this order: asking may load MPI
}

}  // namespace

void register_comm_mpi(CommBackends& backends) {
  backends.add({.name = "mpi",
                .title = "MPI",
                .order = 300,
                .missing = missing_mpi,
                .make = make,
                .starters = {"mpirun", "srun"},
                .started = started,
                .when_waiting_at_exit = when_mpi_waits_at_exit});
}

}  // namespace starling::dist
