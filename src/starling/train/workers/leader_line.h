#pragma once

#include <optional>
#include <string>
#include <vector>

#include "starling/train/workers/leader_service.h"

namespace starling::train {

// A worker's line to the leader of its run. As data::Portions it serves the worker's loader, which
// asks ahead on its own thread; everything else is for the training thread.
class LeaderLine : public data::Portions {
 public:
  virtual int worker() const = 0;  // among all workers
  // Blocks until the leader has begun the run; nullopt: it ended before.
  virtual std::optional<RunStart> join(const std::vector<Tensor>& like) = 0;

  struct Terms {
    double lr = 0;
    std::int64_t clock = 0;   // steps of the worker that had made most of them
    bool alone = false;       // true: the portion is pushed by itself
    std::int64_t pauses = 0;  // in turn: before the portion's step
  };
  // Number of a portion that next() gave, as the leader knows it.
  virtual std::int64_t told_as(std::int64_t portion) const { return portion; }
  virtual Terms terms(std::int64_t portion) = 0;  // of a portion that next() gave; call once for each
  // False: another worker has done the portion that next() gave, which is forgotten then.
  virtual bool wanted(std::int64_t portion) = 0;
  virtual PortionAnswer::Kind why() = 0;  // the loader's batch was null: pause or end; call once for each

  // Sums the notes of a portion over the members of a group that have made a part of it; a worker by itself has made
  // all of it. Call once for each portion, before done().
  virtual PortionNote whole(const PortionNote& note) { return note; }
  // True: the running statistics of this worker are the model's now, and it is to show them after every portion.
  virtual bool done(const PortionNote& note) = 0;
  virtual void show(const std::vector<Tensor>& buffers) = 0;
  virtual void settled() = 0;  // all that was kept back is on the servers
  virtual void leave(const std::string& counters) = 0;
  virtual void failed(const std::string& why) = 0;  // does not throw
};

}  // namespace starling::train
