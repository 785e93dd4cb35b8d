#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "starling/dist/comm/transport/transport_comm.h"
#include "starling/dist/launch/store/store.h"

namespace starling {

struct GlooOptions {
  // Address on which this rank listens, on a free port; the other ranks must be able to reach it. Only this address is
  // bound. Beyond loopback the store must be readable by ranks of this job only: a peer is accepted if it knows the
  // token in the store.
  std::string address = "127.0.0.1";
  std::string interface {};                // network interface whose first address is used instead of `address`
  std::chrono::milliseconds join{60'000};  // deadline to connect all ranks
  std::function<bool()> stop{};            // polled meanwhile; true: throws Error; null: never
};

// True if this build has Gloo (libgloo-dev) and it can be loaded; otherwise the functions below throw.
bool has_gloo();

// Empty with Gloo; otherwise the name of what is missing, with the reason or what brings it.
std::string missing_gloo();

// Connects the ranks of a group over TCP. Collective, blocks until all are connected. Label and epoch of the group
// separate its store keys from those of other groups, and keep ranks of another epoch out. A lost peer is an Error that
// names it, on every rank, as soon as the kernel reports it; a silent host counts as lost after a few seconds.
std::shared_ptr<dist::Transport> make_gloo_transport(const std::shared_ptr<Store>& store, const CommGroup& group,
                                                     const GlooOptions& options = {});

std::unique_ptr<Comm> make_gloo_comm(const std::shared_ptr<Store>& store, const CommGroup& group,
                                     const GlooOptions& options = {}, const dist::TransportCommOptions& how = {});

}  // namespace starling
