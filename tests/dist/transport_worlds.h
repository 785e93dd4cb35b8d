// Thread ranks over an in-memory network, to test code above transports without a wire.
#pragma once

#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/transport/memory/memory_transport.h"
#include "starling/dist/comm/transport/transport_comm.h"

namespace starling::dist {

// Fixed costs of an ordinary network, so that algorithm choices do not depend on the machine's load.
inline LinkCosts test_costs() { return {.latency = 20e-6, .overhead = 2e-6, .per_byte = 1e-9, .reduce_byte = 1e-10}; }

inline TransportCommOptions with_test_costs(TransportCommOptions options = {}) {
  if (!options.far) options.far = test_costs();
  if (!options.near) options.near = test_costs();
  return options;
}

inline TransportCommOptions forcing(CommOp op, std::string algorithm) {
  TransportCommOptions options;
  options.forced[op] = std::move(algorithm);
  return options;
}

// Makes all ranks at once, since construction is collective.
inline Comms make_transport_comms(const std::shared_ptr<MemoryNetwork>& network, int world,
                                  const TransportCommOptions& options, const CommGroup& like = {}) {
  Comms comms(static_cast<std::size_t>(world));
  std::vector<std::exception_ptr> errors(comms.size());
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < world; ++r) {
      threads.emplace_back([&, r] {
        CommGroup group = like;
        group.rank = r;
        group.size = world;
        set_thread_rank(r);
        try {
          comms[static_cast<std::size_t>(r)] = make_transport_comm(network->endpoint(r), group, options);
        } catch (...) {
          errors[static_cast<std::size_t>(r)] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return comms;
}

inline Comms make_memory_comms(int world, const TransportCommOptions& options = with_test_costs()) {
  return make_transport_comms(make_memory_network(world), world, options);
}

// Default: algorithms chosen by cost.
inline Backend memory_backend() {
  return {"memory", [](int world) { return make_memory_comms(world); }};
}

// Reductions in rank order only.
inline Backend ordered_memory_backend() {
  return {"memory_rank_ordered", [](int world) {
            TransportCommOptions options = with_test_costs();
            options.rank_ordered = true;
            return make_memory_comms(world, options);
          }};
}

inline Backend checked_memory_backend() {
  return {"memory_checking", [](int world) { return wrap(make_memory_comms(world), make_checking); }};
}

}  // namespace starling::dist
