#pragma once

#include <optional>

#include "starling/base/clock.h"
#include "starling/dist/codec/codec.h"
#include "starling/dist/codec/gradient_traffic.h"
#include "starling/dist/ps/client.h"
#include "starling/dist/strategy/servers/pushed_factors.h"
#include "starling/dist/strategy/servers/rows_read.h"
#include "starling/dist/strategy/servers/served_strategy.h"

namespace starling::dist {

// Worker of a strategy over parameter servers. It trains alone, on a communicator of its own: everything that workers
// share goes through the servers, which hold the model and run the optimizer. Before a step it reads the weights at its
// clock, which may wait for others as the rule says, and after it pushes its gradients. The clock is the number of the
// step as the trainer counts them for this worker alone. A step with gradients that are not finite is not pushed, but
// counted.
class ServerWorker final : public ServedStrategy {
 public:
  ServerWorker(std::shared_ptr<Comm> comm, std::string name, const ServerRule& rule);

  // How begin() connects with the servers, whose tensors are the weights, in their order.
  using Connect = std::function<std::unique_ptr<ps::Client>(const TrainedState& state)>;
  void connect_by(Connect connect) { connect_ = std::move(connect); }
  const ServerRule& rule() const override { return rule_; }
  ps::Client& client() const { return *client_; }

  void take_portion(std::int64_t portion, bool alone, std::int64_t pauses) override;
  void take_fields(std::span<const Tensor> fields) override { fields_.assign(fields.begin(), fields.end()); }
  bool keeps_back() const override;

  std::string name() const override;
  // Where the codec is `factors`, programs leave the factors of gradients that travel so in their place.
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;
  void begin(const TrainedState& state) override;
  void before_step(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool updates() const override { return true; }
  bool takes_rows() const override { return true; }
  void exchange(GradientStep& step) override;
  // Pushes what has been added up since the last push and what the codec keeps, as it is, so that the servers have all
  // of it; and steps aside: no read waits for this worker until its next step. Workers in turn stay; with a codec their
  // settlings are clocks like their steps, as each worker makes as many of both.
  void settle() override;
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;

 private:
  // Weight with its own rhythm of pushes and fetches.
  struct Layer {
    NamedTensor weight{};
    double lr_scale = 1;
    std::int64_t n_push = 1, n_fetch = 1;
    // Sum of gradients that is not pushed yet; undefined: each is pushed at once.
    Tensor kept{};
    double kept_weight = 0;
    std::int64_t kept_steps = 0;
    std::vector<std::int64_t> portions{};  // in kept, or of the next step; empty: not told
    std::int64_t pushes = 0;
    double last_weight = 1;                      // of its last push
    double product_bytes = 0, factor_bytes = 0;  // of gradients that travelled as factors
    GradientForm form = GradientForm::dense;     // of a codec that chooses
    bool asked = false;                          // a program has asked whether it leaves factors
    double worst_error = 0;                      // of one_bit
    bool by_rows = false;                        // the last fetch was of some rows: others are older
  };
  Layer layer_of(const NamedTensor& weight) const;
  void fetch(std::int64_t clock);
  void fetch_rows(std::size_t i, const Tensor& rows, std::int64_t clock);
  void fetch_rest(std::size_t i);
  void find_tables(const graph::Graph& program);
  Tensor rows_to_fetch(const Layer& layer) const;
  bool give(std::size_t i, const Tensor& gradient, double weight);
  void push(std::size_t i, const Tensor& gradient, double weight, std::int64_t clock);
  bool push_kept(std::int64_t clock);
  void push_kept(std::size_t i, std::int64_t clock);
  void finish_pushes();
  void push_portion(const GradientStep& step);
  bool push_unsent(std::int64_t clock);
  bool wants_factors(const Tensor& parameter, const FactorShape& shape);
  void count_factors(std::size_t i, const PushedFactors& factors);
  const PushedFactors* factors_of(const Layer& layer) const;
  std::string first_not_finite(const GradientStep& step) const;
  void measure(double seconds);
  void choose_forms();
  GradientFacts facts_of(std::size_t i, const std::optional<FactorShape>& shape) const;
  std::vector<GradientTraffic> traffic() const;
  void tell_errors() const;
  void descend(const Layer& layer, const Tensor& gradient) const;
  bool fetches_at(const Layer& layer, std::int64_t clock) const {
    return aside_ || fetches_ == 0 || clock % layer.n_fetch == 0;
  }

  std::string kind_;
  ServerRule rule_;
  Connect connect_;
  std::unique_ptr<ps::Client> client_;
  std::vector<Layer> layers_;      // by weight
  std::vector<std::size_t> sent_;  // weights with sums on their way
  std::optional<ps::CodedPushes> coded_;
  std::vector<PushedFactors> factors_;  // of the program that ran last
  std::vector<RowsRead> tables_;        // of all programs
  std::vector<Tensor> whole_;           // weights that some program reads otherwise
  std::vector<Tensor> fields_;          // of the next step's batch
  CodecPtr chooser_;                    // null: one form for all
  WorldCosts costs_{.ranks = 2};        // a push sends what a rank of two sends in an all-reduce
  struct Mark {
    std::int64_t step = 0;
    double waited = 0;
    SteadyClock::time_point at{};
  } mark_;  // where what the next choice looks at begins
  const optim::Optimizer* optimizer_ = nullptr;
  std::int64_t portion_ = -1;   // that the next step is made of
  bool told_ = false;           // true: which portion the next step is made of is known
  bool alone_ = false;          // true: the portion of the next step is pushed by itself
  bool aside_ = false;          // retired: no other worker waits for this one; from its first hello on, they do
  std::int64_t clock_ = -1;     // of the last step or settling
  std::int64_t read_at_ = 0;    // clock of the last fetch
  std::int64_t settlings_ = 0;  // that were clocks
  std::int64_t steps_ = 0, pushes_ = 0, fetches_ = 0, rows_pushed_ = 0, rows_fetched_ = 0, not_finite_ = 0,
               settles_ = 0, by_factors_ = 0;
};

}  // namespace starling::dist
