#pragma once

namespace starling {

class Comm;

// World of this thread's collectives. Without a communicator it is this rank alone.
struct CommWorld {
  Comm* comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

// World of this thread's innermost scope; a world of one outside any.
const CommWorld& current_world();

// Scope that directs collectives applied by this thread, and programs it runs without a communicator of their own, to a
// world. dist/comm/comm_scope.h makes one from a communicator.
class WorldScope {
 public:
  explicit WorldScope(const CommWorld& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  CommWorld world_;
  const CommWorld* before_;
};

}  // namespace starling
