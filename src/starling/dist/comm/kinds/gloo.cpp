#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist {
namespace {

std::unique_ptr<Comm> make(const std::shared_ptr<Store>& store, const BackendOptions& options) {
  const CommGroup group{.rank = options.rank,
                        .size = options.world,
                        .epoch = options.epoch,
                        .label = options.label,
                        .deadline = options.call_deadline,
                        .rank_progress = options.rank_progress};
  return make_gloo_comm(store, group, {.address = options.listen, .join = options.join_deadline, .stop = options.stop},
                        reducing_by(options.all_reduce));
}

}  // namespace

void register_comm_gloo(CommBackends& backends) {
  backends.add({.name = "gloo", .title = "Gloo (TCP)", .order = 200, .missing = missing_gloo, .make = make});
}

}  // namespace starling::dist
