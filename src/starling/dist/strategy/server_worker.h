#pragma once

#include "starling/dist/ps/client.h"
#include "starling/dist/strategy/server_rule.h"

namespace starling::dist {

// Worker of a strategy over parameter servers. It trains alone, on a communicator of its own: everything that workers
// share goes through the servers, which hold the model and run the optimizer. Before a step it reads the weights at its
// clock, which may wait for others as the rule says, and after it pushes its gradients. The clock is the number of the
// step as the trainer counts them for this worker alone. Gradients that are not finite are not pushed.
class ServerWorker final : public RankStrategy {
 public:
  ServerWorker(std::shared_ptr<Comm> comm, std::string name, const ServerRule& rule);

  // How begin() connects with the servers, whose tensors are the weights, in their order.
  using Connect = std::function<std::unique_ptr<ps::Client>(const TrainedState& state)>;
  void connect_by(Connect connect) { connect_ = std::move(connect); }
  const ServerRule& rule() const { return rule_; }
  ps::Client& client() const { return *client_; }

  std::string name() const override;
  void begin(const TrainedState& state) override;
  void before_step(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool updates() const override { return true; }
  void exchange(GradientStep& step) override;
  // Pushes what has been added up since the last push, and steps aside: nobody waits for this worker until its next
  // step.
  void settle() override;
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;

 private:
  void fetch(std::int64_t clock);
  void push(std::span<const NamedTensor> gradients, double weight, std::int64_t clock);
  void push_kept(std::int64_t clock);
  void add_up(const GradientStep& step);
  void descend(std::span<const NamedTensor> gradients) const;
  bool fetches_at(std::int64_t clock) const { return aside_ || fetches_ == 0 || clock % rule_.n_fetch == 0; }

  std::string kind_;
  ServerRule rule_;
  Connect connect_;
  std::unique_ptr<ps::Client> client_;
  std::vector<NamedTensor> weights_;
  std::vector<double> lr_scale_;  // by weight
  const optim::Optimizer* optimizer_ = nullptr;
  std::vector<NamedTensor> kept_;  // sums of gradients that are not pushed yet; empty: each is pushed at once
  double kept_weight_ = 0;
  std::int64_t kept_steps_ = 0;
  bool aside_ = false;      // retired: no other worker waits for this one; from its first hello on, they do
  std::int64_t clock_ = 0;  // of the last step
  std::int64_t steps_ = 0, pushes_ = 0, fetches_ = 0, not_finite_ = 0;
};

}  // namespace starling::dist
