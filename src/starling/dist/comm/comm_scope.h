#pragma once

#include "starling/dist/comm/comm.h"
#include "starling/ops/comm_world.h"

namespace starling {

// While it lives, the collectives that this thread applies (ops/comm.h) go to the ranks of `comm`, eagerly as well as
// from compiled functions that have no strategy of their own:
//   CommScope scope(*comm);
//   Tensor total = all_reduce(x);
// Scopes nest. Every rank makes its own, on the thread that runs its code; the communicator outlives it.
class CommScope {
 public:
  explicit CommScope(Comm& comm) : scope_({&comm, comm.rank(), comm.size()}) {}

 private:
  WorldScope scope_;
};

}  // namespace starling
