// Thread ranks in a mesh of two axes, with their calls checked.
#pragma once

#include <functional>

#include "dist/comm_worlds.h"
#include "starling/dist/mesh/mesh.h"

namespace starling::dist {

// Runs body(mesh) on every rank of a mesh of axes "data" and "model"; no call takes longer than `deadline`.
inline void on_mesh(int data, int model, const std::function<void(const Mesh&)>& body,
                    std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
  const Comms comms = wrap(make_thread_comms(data * model, {.deadline = deadline}), make_checking);
  run_ranks(comms, [&](Comm& comm) {
    const Mesh mesh(comm, {{"data", data}, {"model", model}});
    body(mesh);
    comm.barrier().wait();
  });
}

}  // namespace starling::dist
