#include "starling/dist/comm/transport/mpi_comm.h"

namespace starling::dist {

std::unique_ptr<Comm> make_mpi_comm(const MpiOptions& options, const TransportCommOptions& how) {
  auto transport = make_mpi_transport(options);
  const CommGroup group{.rank = transport->rank(),
                        .size = transport->size(),
                        .epoch = options.epoch,
                        .label = options.label,
                        .deadline = options.deadline,
                        .rank_progress = options.rank_progress};
  return make_transport_comm(std::move(transport), group, how);
}

}  // namespace starling::dist
