#pragma once

#include "starling/dist/comm/comm.h"
#include "starling/ops/def/comm_world.h"

namespace starling {

// Scope in which this thread's collective ops (ops/api/comm.h) go to the ranks of `comm`, both eagerly and in compiled
// functions that have no strategy of their own:
//   CommScope scope(*comm);
//   Tensor total = all_reduce(x);
// Scopes nest. Every rank opens its own, on the thread that runs its code; the communicator must outlive it.
class CommScope {
 public:
  explicit CommScope(Comm& comm) : scope_({&comm, comm.rank(), comm.size()}) {}

 private:
  WorldScope scope_;
};

}  // namespace starling
