#pragma once

#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist {

// Ranks that are threads of this process, over TCP.
inline Comms make_gloo_comms(int world) {
  const auto store = make_memory_store();
  Comms comms(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        comms[static_cast<std::size_t>(rank)] = make_gloo_comm(store, {.rank = rank, .size = world});
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  threads.clear();
  return comms;
}

inline Backend gloo_backend() {
  return {"gloo", [](int world) { return make_gloo_comms(world); }};
}

}  // namespace starling::dist
