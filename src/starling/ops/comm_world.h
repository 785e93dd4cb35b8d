#pragma once

namespace starling {

class Comm;

// Whom the collectives of this thread reach. Without a communicator the world is this rank alone: others give nothing.
struct CommWorld {
  Comm* comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

// The world of the innermost scope of this thread; a world of one outside of any.
const CommWorld& current_world();

// Collectives applied by this thread while it lives, and programs it runs that were given no communicator of their own,
// go to that world. dist/comm/comm_scope.h makes one of a communicator.
class WorldScope {
 public:
  explicit WorldScope(const CommWorld& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  CommWorld before_;
};

}  // namespace starling
