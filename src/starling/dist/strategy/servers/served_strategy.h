#pragma once

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {

// Strategy of a worker that trains on portions which the leader of its run hands out (train/workers).
class ServedStrategy : public RankStrategy {
 public:
  using RankStrategy::RankStrategy;

  virtual const ServerRule& rule() const = 0;
  // The next step is made of this portion of the data, which the servers take once, whoever makes it. alone: others may
  // have pushed it, or will make what was kept back so far: it is not added to that, which is pushed first. The worker
  // may have been retired, too: it joins again at its next step.
  virtual void take_portion(std::int64_t portion, bool alone) = 0;
  // Fields of the batch that the next step is made of, before it begins: of tables that its program reads by ids of
  // these only their rows need be fetched.
  virtual void take_fields([[maybe_unused]] std::span<const Tensor> fields) {}
  // Gradients of steps are not on the servers yet.
  virtual bool keeps_back() const = 0;
};

}  // namespace starling::dist
