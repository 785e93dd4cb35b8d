#pragma once

#include "starling/dist/strategy/servers/server_worker.h"

namespace starling::dist {

// Member of a group of workers that is one worker to the servers (SINGA's groups, the two levels of MXNet's KVStore).
// Inside a group training is synchronous: all members have the weights of member 0, and the gradient that it pushes is
// the mean of theirs, weighted by samples. If one's are not finite, nothing is pushed, and all members get a weight of
// 0. Between groups the rule of the servers holds.
class GroupWorker final : public ServedStrategy {
 public:
  // `alone` has this worker as its only rank, `group` the members. `server` is the line of member 0 to the servers;
  // null on other members.
  GroupWorker(std::shared_ptr<Comm> alone, std::shared_ptr<Comm> group, std::shared_ptr<ServerWorker> server,
              std::string name, const ServerRule& rule);

  const ServerRule& rule() const override { return rule_; }
  void take_portion(std::int64_t portion, bool alone, std::int64_t pauses) override;
  bool keeps_back() const override { return server_ && server_->keeps_back(); }

  std::string name() const override { return kind_; }
  void begin(const TrainedState& state) override;
  void before_step(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool updates() const override { return true; }
  void exchange(GradientStep& step) override;
  void settle() override;
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;  // inside the group, and with the servers

 private:
  double agree(GradientStep& step);

  std::shared_ptr<Comm> group_;
  std::shared_ptr<ServerWorker> server_;
  std::string kind_;
  ServerRule rule_;
  std::vector<NamedTensor> weights_;
};

}  // namespace starling::dist
