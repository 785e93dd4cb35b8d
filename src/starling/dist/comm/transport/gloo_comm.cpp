#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling {

std::unique_ptr<Comm> make_gloo_comm(std::shared_ptr<Store> store, const CommGroup& group, const GlooOptions& options,
                                     const dist::TransportCommOptions& how) {
  return make_transport_comm(make_gloo_transport(std::move(store), group, options), group, how);
}

}  // namespace starling
