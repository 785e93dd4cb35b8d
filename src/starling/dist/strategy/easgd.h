#pragma once

#include "starling/base/config/settings.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/dist/strategy/uneven/catch_up.h"

namespace starling {

struct EasgdOptions {
  std::int64_t every = 10;    // local steps between two pulls
  double alpha = 0;           // fraction of the distance moved per pull; 0: 0.9 divided by the number of workers
  bool asynchronous = false;  // every worker meets the centre when ready, not all at once
  std::int64_t lag = 0;       // asynchronous: steps behind the foremost before a rank skips its rows; 0: never
  static Settings settings();
};

// Elastic averaging SGD: every rank trains by itself, tied to a centre. Every few steps d = alpha · (x - centre), x -=
// d, centre += d, with the same d on both sides, so that the sum of all weights and the centre is preserved.
//
// Synchronous: the centre is replicated and the sum of all d is all-reduced. Asynchronous: it lives on rank 0, where an
// aggregator thread meets the workers one at a time, first come, first served; with a lag set, ranks regularly ask it
// for the foremost step. The model of the run is the centre.
class Easgd final : public dist::RankStrategy {
 public:
  Easgd(std::shared_ptr<Comm> comm, const EasgdOptions& options);
  ~Easgd() override;

  std::string name() const override;
  void begin(const dist::TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool closed(std::int64_t step) override;
  void after_update(std::int64_t step, double weight) override;
  bool meets_after(std::int64_t step) const override { return (step + 1) % options_.every == 0; }
  bool meets_alone() const override { return options_.asynchronous; }
  void regrouped() override;  // all workers, new ones too, start from the centre, which model() had pulled
  void settle() override;
  std::vector<dist::ModelSum> model() override;
  bool settling_changes() const override { return true; }
  bool shows_to_evaluate() const override { return true; }
  void show() override;
  void unshow() override;
  bool settled() const override { return world() == 1 && !explored_; }
  std::vector<NamedTensor> tensors() const override;
  std::vector<dist::LawCounter> counters() const override;
  dist::OpCounters exchanged(CommOp op) const override;

  // Centre weights, flat, by dtype; empty if not held by this rank. Not to be read while other ranks train.
  const std::vector<Tensor>& centre() const { return centre_; }

 private:
  struct CentreServer;  // aggregator on rank 0, asynchronous mode
  struct CentreClient;  // worker's side on the others, asynchronous mode

  void meet_all();
  void meet_centre(std::int64_t step);
  std::int64_t foremost(std::int64_t step);
  void take_centre(const char* what);

  EasgdOptions options_;
  double alpha_;
  std::vector<dist::FlatTensors> weights_, pulls_;
  std::vector<Tensor> centre_;
  std::vector<Tensor> own_;  // weights of this rank while show() has replaced them by the centre
  std::vector<NamedTensor> buffers_, named_weights_, moments_;
  std::unique_ptr<CentreServer> server_;
  std::unique_ptr<CentreClient> client_;
  bool explored_ = false;  // weights have changed since last set to the centre
  dist::CatchUp catch_up_;
  std::int64_t foremost_ = 0, asked_ = -1;  // steps of the foremost rank, and the own step at which it was asked for
  std::int64_t steps_ = 0, meetings_ = 0, left_out_ = 0;
  std::uint64_t bytes_ = 0;  // sent and received in this rank's own pulls, as the communicator counts
};

}  // namespace starling
