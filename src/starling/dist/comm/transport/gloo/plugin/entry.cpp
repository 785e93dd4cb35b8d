#include "starling/dist/comm/transport/gloo_comm.h"

// Door of libstarling_gloo.so; gloo_plugin.cpp of the library finds it by name and takes over what it returns.
extern "C" std::shared_ptr<starling::dist::Transport>* starling_make_gloo_transport(
    const std::shared_ptr<starling::Store>& store, const starling::CommGroup& group,
    const starling::GlooOptions& options) {
  return new std::shared_ptr<starling::dist::Transport>(starling::make_gloo_transport(store, group, options));
}
