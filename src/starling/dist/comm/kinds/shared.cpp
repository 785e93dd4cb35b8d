#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/shared/shared_comm.h"

namespace starling::dist {
namespace {

std::unique_ptr<Comm> make(const std::shared_ptr<Store>& store, const BackendOptions& options) {
  SharedWorldOptions how{.epoch = options.epoch,
                         .label = options.label,
                         .deadline = options.call_deadline,
                         .join_deadline = options.join_deadline,
                         .rank_progress = options.rank_progress,
                         .stop = options.stop};
  if (options.rank_progress == nullptr) how.visit_patience = {};  // not supervised: a debugger may hold a rank anywhere
  return make_shared_comm(*store, options.rank, options.world, how);
}

}  // namespace

void register_comm_shared(CommBackends& backends) {
  backends.add({.name = "shared", .title = "shared memory", .order = 100, .one_host = true, .make = make});
}

}  // namespace starling::dist
