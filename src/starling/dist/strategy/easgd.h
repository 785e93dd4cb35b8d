#pragma once

#include "starling/base/settings.h"
#include "starling/dist/strategy/catch_up.h"
#include "starling/dist/strategy/flat_tensors.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

struct EasgdOptions {
  std::int64_t every = 10;    // local steps between two pulls
  double alpha = 0;           // share of the distance that is gone; 0: 0.9 divided by the number of workers
  bool asynchronous = false;  // every worker meets the centre when it is ready, not all at once
  std::int64_t lag = 0;       // asynchronous: steps behind the foremost before a rank leaves out its rows; 0: never
  static Settings settings();
};

// Elastic averaging: every rank explores by itself and is tied to a centre. Every few steps d = alpha · (x - centre),
// x -= d, centre += d, with the same d on both sides, so that the sum of all weights and the centre stays what it is.
//
// Synchronous: the centre is replicated and the sum of all d is all-reduced. Asynchronous: it lives on rank 0, where a
// thread meets the workers one at a time, first come, first served; a rank that has fallen behind asks it now and then
// how far the foremost is. The model that a run stands for is the centre.
class Easgd final : public RankStrategy {
 public:
  Easgd(std::shared_ptr<Comm> comm, const EasgdOptions& options);
  ~Easgd() override;

  std::string name() const override;
  void begin(const TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool closed(std::int64_t step) override;
  void after_update(std::int64_t step, double weight) override;
  bool meets_after(std::int64_t step) const override { return (step + 1) % options_.every == 0; }
  bool meets_alone() const override { return options_.asynchronous; }
  void regrouped() override { settle(); }  // all workers, new ones too, start from the centre
  void settle() override;
  bool settling_changes() const override { return true; }
  bool shows_to_evaluate() const override { return true; }
  void show() override;
  void unshow() override;
  bool settled() const override { return world() == 1 && !explored_; }
  std::vector<NamedTensor> tensors() const override;
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;

  // By dtype, flat; empty where it does not live on this rank. Not while other ranks train.
  const std::vector<Tensor>& centre() const { return centre_; }

 private:
  struct Desk;  // rank 0's, asynchronous
  struct Seat;  // of the others, asynchronous

  void meet_all();
  void meet_centre(std::int64_t step);
  std::int64_t foremost(std::int64_t step);
  void take_centre(const char* what);

  EasgdOptions options_;
  double alpha_;
  std::vector<FlatTensors> weights_, pulls_;
  std::vector<Tensor> centre_;
  std::vector<Tensor> own_;  // weights of this rank while the centre is shown in their place
  std::vector<NamedTensor> buffers_;
  std::unique_ptr<Desk> desk_;
  std::unique_ptr<Seat> seat_;
  bool explored_ = false;  // the weights have left the centre since they were set to it
  CatchUp catch_up_;
  std::int64_t foremost_ = 0, asked_ = -1;  // steps of the foremost rank, and at which step that was asked
  std::int64_t steps_ = 0, meetings_ = 0, bytes_ = 0, left_out_ = 0;
};

}  // namespace starling
