#include <fmt/format.h>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/plugin.h"

// Stands in for Gloo where it is a library of its own: in a package that brings no MPI (STARLING_MPI_PLUGIN) and whose
// Gloo needs one, as that of Debian 13 does.
namespace starling {
namespace {

using MakeTransport = std::shared_ptr<dist::Transport>* (*)(const std::shared_ptr<Store>&, const CommGroup&,
                                                            const GlooOptions&);

constexpr const char* kMake = "starling_make_gloo_transport";

const dist::Plugin& plugin() {
  static const dist::Plugin loaded("libstarling_gloo.so", {kMake});
  return loaded;
}

}  // namespace

bool has_gloo() { return plugin().loaded(); }

std::string missing_gloo() { return has_gloo() ? "" : fmt::format("Gloo ({})", plugin().error()); }

std::shared_ptr<dist::Transport> make_gloo_transport(const std::shared_ptr<Store>& store, const CommGroup& group,
                                                     const GlooOptions& options) {
  check(has_gloo(),
        "[gloo] expected what Gloo stands on to connect processes over TCP, such as the MPI of Debian's openmpi-bin, "
        "got: {}",
        plugin().error());
  const auto make = plugin().function<MakeTransport>(kMake);
  const std::unique_ptr<std::shared_ptr<dist::Transport>> made(make(store, group, options));
  return *made;
}

}  // namespace starling
