#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling {

std::unique_ptr<Comm> make_gloo_comm(const std::shared_ptr<Store>& store, const CommGroup& group,
                                     const GlooOptions& options, const dist::TransportCommOptions& how) {
  return make_transport_comm(make_gloo_transport(store, group, options), group, how);
}

}  // namespace starling
