#include "starling/base/error.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling {

bool has_gloo() { return false; }

std::string missing_gloo() { return "Gloo (apt install libgloo-dev, then build again)"; }

std::shared_ptr<dist::Transport> make_gloo_transport(const std::shared_ptr<Store>&, const CommGroup&,
                                                     const GlooOptions&) {
  fail("[gloo] expected a build with Gloo (libgloo-dev) to connect processes over TCP, got one without");
}

}  // namespace starling
