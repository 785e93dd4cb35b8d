#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "starling/dist/comm/transport/transport_comm.h"
#include "starling/dist/launch/store.h"

namespace starling {

struct GlooOptions {
  // Where this rank listens, on a port of the system's choice; the other ranks must be able to reach it. Nothing but
  // this very address is bound. Beyond loopback the store must be one that only ranks of this job can read: a peer is
  // taken for one when it knows what was put there.
  std::string address = "127.0.0.1";
  std::string interface {};                // or the first address of this network interface; wins over address
  std::chrono::milliseconds join{60'000};  // allowed until all ranks are connected
};

// Whether this build has Gloo (libgloo-dev). Without it the functions below throw.
bool has_gloo();

// Joins the ranks of a group over TCP: collective, blocks until all are connected. Label and epoch of the group keep
// its keys in the store apart from those of others, and ranks of another epoch out. A lost peer is an Error that names
// it, on every rank, as soon as the kernel tells; a host that falls silent counts as lost after a few seconds.
std::shared_ptr<Transport> make_gloo_transport(std::shared_ptr<Store> store, const CommGroup& group,
                                               const GlooOptions& options = {});

std::unique_ptr<Comm> make_gloo_comm(std::shared_ptr<Store> store, const CommGroup& group,
                                     const GlooOptions& options = {}, const TransportCommOptions& how = {});

}  // namespace starling
