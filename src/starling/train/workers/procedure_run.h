#pragma once

#include <functional>
#include <optional>

#include "starling/dist/ps/coordinator.h"
#include "starling/train/workers/portion_queue.h"

namespace starling::train {

// The leader's procedure over the servers' vectors (Sandblaster): every evaluation of the loss is a round of portions
// of all samples, which idle workers take, and whose gradients the servers add up. One thread.
class ProcedureRun {
 public:
  struct Options {
    dist::ps::CoordinatorOptions procedure{};
    std::function<void()> waiting{};  // called now and then while workers compute; throws if they cannot any more
  };
  // Round n is made of the portions of batch n of the queue's grid. The client is that of an observer.
  ProcedureRun(dist::ps::Client& client, PortionQueue& queue, const data::PortionGrid& grid, Options options);

  struct Iteration {
    PortionStep sum{};             // at the weights that it has found
    std::int64_t evaluations = 0;  // rounds that it took
    bool moved = false;            // false: there is nothing to gain any more
  };
  // Makes the next iteration. `leave` is asked between portions (null: never); once it is true the iteration is given
  // up, with the weights that it began with, and nullopt returned: there is no iteration after that.
  std::optional<Iteration> iterate(const std::function<bool()>& leave = {});

  // Counts of evaluations, of trial points refused because the loss was infinite, of pairs refused, and of requests and
  // bytes (without headers) between leader and servers.
  dist::ps::Counters counters() const;

 private:
  double evaluate();
  double refuse(const PortionStep& step);
  void leave_if_asked() const;

  dist::ps::Client& client_;
  PortionQueue& queue_;
  std::int64_t pieces_;
  Options options_;
  dist::ps::ProcedureCoordinator coordinator_;
  PortionStep sum_{};
  std::function<bool()> leave_{};       // of the iteration being made
  bool finite_ = false, left_ = false;  // the last evaluation; an iteration
  std::int64_t rounds_ = 0, iterations_ = 0, points_refused_ = 0;
  double requests_ = 0, bytes_ = 0;
};

}  // namespace starling::train
