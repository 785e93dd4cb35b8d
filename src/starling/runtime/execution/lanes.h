#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "starling/runtime/execution/bound_program.h"
#include "starling/runtime/execution/lane_thread.h"

namespace starling::runtime {

// Lanes of a program side by side: the first is the caller's, each other has a thread. Lanes wait for each other by the
// number of instructions that have ended, and all stop when one fails.
class Lanes {
 public:
  explicit Lanes(BoundProgram& program);
  ~Lanes();  // waits: other lanes may still be using the program's memory
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  void begin();  // starts the other lanes
  void run(std::size_t lane);
  void wait_quietly();  // until the other lanes have ended
  void finish();        // the same, then rethrows what one of them threw

 private:
  void wait_for(const Wait& wait);
  void fail(std::size_t lane);

  struct alignas(64) Count {
    std::atomic<int> value{0};
  };

  BoundProgram& program_;
  std::vector<Count> done_;  // instructions of each lane that have ended in the current run
  std::atomic<bool> failed_{false};
  std::vector<std::unique_ptr<LaneThread>> others_;
};

}  // namespace starling::runtime
