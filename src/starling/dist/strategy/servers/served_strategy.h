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
  // may have been retired, too: it joins again at its next step. pauses: of workers in turn, those before the portion's
  // step, which may be more than this worker has settled for.
  virtual void take_portion(std::int64_t portion, bool alone, std::int64_t pauses) = 0;
  // Gradients of steps are not on the servers yet.
  virtual bool keeps_back() const = 0;
};

}  // namespace starling::dist
