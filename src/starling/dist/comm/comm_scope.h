#pragma once

#include "starling/dist/comm/comm.h"
#include "starling/dist/mesh/mesh.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling {

// Scope in which this thread's collective ops (ops/api/comm.h) go to the ranks of `comm`, both eagerly and in compiled
// functions that have no strategy of their own:
//   CommScope scope(*comm);
//   Tensor total = all_reduce(x);
// With a mesh they also go to the ranks of an axis: all_reduce(x, {.group = Symbol("model")}).
// Scopes nest. Every rank opens its own, on the thread that runs its code; communicator and mesh must outlive it.
class CommScope {
 public:
  explicit CommScope(Comm& comm) : scope_({&comm, comm.rank(), comm.size()}) {}
  explicit CommScope(const Mesh& mesh) : scope_(mesh.world()) {}

 private:
  WorldScope scope_;
};

}  // namespace starling
