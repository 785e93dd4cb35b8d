#pragma once

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {

// Strategy of a worker that trains on portions which the leader of its run hands out (train/workers).
class ServedStrategy : public RankStrategy {
 public:
  using RankStrategy::RankStrategy;

  virtual const ServerRule& rule() const = 0;
  // Tells which portion of the data the next step is made of; servers take each portion once, from whichever worker.
  // `alone`: another worker may have pushed this portion, or is to make those that are kept back here. It is then
  // pushed by itself, after what is kept back; and the worker, which may have been retired meanwhile, joins again at
  // its next step. `pauses`: of workers in turn, those before the portion's step, which may be more than this worker
  // has settled for.
  virtual void take_portion(std::int64_t portion, bool alone, std::int64_t pauses) = 0;
  // Gives the fields of the batch that the next step is made of, before it begins: of tables that its program reads by
  // ids of these only their rows need be fetched.
  virtual void take_fields([[maybe_unused]] std::span<const Tensor> fields) {}
  // True while gradients of steps that were made are not on the servers yet.
  virtual bool keeps_back() const = 0;

  // False: gradients that are not finite go to the servers as they are. By default they are not pushed, and
  // GradientStep::not_finite tells it.
  void look_at_gradients(bool looks) { looks_ = looks; }

 protected:
  bool looks() const { return looks_; }

 private:
  bool looks_ = true;
};

}  // namespace starling::dist
