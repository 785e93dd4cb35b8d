#include "starling/train/callback.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"

namespace starling {
namespace {

class OwnCallback final : public Callback {
 public:
  using Function = std::function<void(Run&)>;
  struct Functions {
    Function step{};
    Function evaluated{};
    Function epoch{};
    std::int64_t every = 1;
  };
  explicit OwnCallback(Functions functions) : functions_(std::move(functions)) {
    check(functions_.every >= 1, "[callback] expected to be called every 1 step or more, got {}", functions_.every);
  }
  std::string name() const override { return "own"; }
  void step(Run& run) override {
    if (functions_.step && run.state().step % functions_.every == 0) functions_.step(run);
  }
  bool looks_at_loss(std::int64_t step) const override { return functions_.step && step % functions_.every == 0; }
  void evaluated(Run& run) override {
    if (functions_.evaluated) functions_.evaluated(run);
  }
  void epoch(Run& run) override {
    if (functions_.epoch) functions_.epoch(run);
  }

 private:
  Functions functions_;
};

}  // namespace

bool RunPlan::made_by_callbacks(const std::string& metric) const {
  const auto ends = [&](const PlannedMetric& one) { return metric.ends_with("_" + one.name); };
  const auto is = [&](const PlannedMetric& one) { return metric == one.name; };
  return std::any_of(metrics.begin(), metrics.end(), ends) && std::none_of(metrics.begin(), metrics.end(), is);
}

bool RunPlan::higher_is_better(const std::string& metric) const {
  for (const auto& one : metrics) {
    if (metric == one.name || metric.ends_with("_" + one.name)) return one.higher_is_better;
  }
  return true;
}

CallbackPtr after_step(std::function<void(Run&)> f, std::int64_t every) {
  return std::make_shared<OwnCallback>(OwnCallback::Functions{.step = std::move(f), .every = every});
}
CallbackPtr after_evaluation(std::function<void(Run&)> f) {
  return std::make_shared<OwnCallback>(OwnCallback::Functions{.evaluated = std::move(f)});
}
CallbackPtr after_epoch(std::function<void(Run&)> f) {
  return std::make_shared<OwnCallback>(OwnCallback::Functions{.epoch = std::move(f)});
}

}  // namespace starling
