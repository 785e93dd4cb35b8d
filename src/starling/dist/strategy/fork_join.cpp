#include "starling/dist/strategy/fork_join.h"

#include <atomic>

#include "starling/base/error.h"

namespace starling {

Settings ForkJoinOptions::settings() {
  using O = ForkJoinOptions;
  return {setting("nodes", &O::nodes, "groups of workers, each on one host, that write one set of weights",
                  {.min = 1, .max = 256}),
          setting("every", &O::every, "steps between two averages of the nodes' weights", {.min = 1}),
          setting("lag", &O::lag,
                  "steps that a worker may lie behind the foremost of its node before it leaves out its rows; 0: it "
                  "never does",
                  {.min = 0, .max = 4096}),
          setting("atomic", &O::atomic, "keep all of several updates that meet at one weight; slower")};
}

ForkJoin::ForkJoin(std::shared_ptr<Comm> given, const ForkJoinOptions& options)
    : dist::RankStrategy(std::move(given)), options_(options) {
  check(options_.nodes >= 1 && world() % options_.nodes == 0,
        "[h2o] expected workers in {} nodes of equal size, got {} workers", options_.nodes, world());
  const int members = world() / static_cast<int>(options_.nodes), node = rank() / members, member = rank() % members;
  inside_ = std::make_unique<Hogwild>(comm().split(node, member, {.name = "h2o.inside"}),
                                      HogwildOptions{.atomic = options_.atomic, .lag = options_.lag});
  between_ = std::make_unique<LocalSgd>(comm().split(member == 0 ? 0 : 1 + rank(), node, {.name = "h2o.between"}),
                                        LocalSgdOptions{.every = options_.every});
}

std::string ForkJoin::name() const {
  return fmt::format("h2o({} nodes of {} ranks, every {} steps)", options_.nodes, inside_->world(), options_.every);
}

void ForkJoin::begin(const dist::TrainedState& state) {
  dist::RankStrategy::begin(state);
  samples_ = zeros({inside_->world()}, DType::f64);
  memory_ = std::make_unique<dist::SharedTensors>(inside_->comm(), std::vector<NamedTensor>{{"h2o.samples", samples_}});
  inside_->begin(state);
  joined("h2o.begin", [&] { between_->begin(state); });
}

void ForkJoin::restored(std::int64_t step) {
  inside_->restored(step);
  if (leads()) between_->restored(step);
}

template <class F>
void ForkJoin::joined(const char* what, F&& act) {
  inside_->comm().barrier({.name = what}).wait();
  if (leads()) act();
  inside_->comm().barrier({.name = what}).wait();
}

void ForkJoin::exchange(dist::GradientStep& step) { inside_->exchange(step); }

void ForkJoin::after_update(std::int64_t step, double weight) {
  std::atomic_ref<double>(samples_.data<double>()[inside_->rank()]) += weight;
  const auto tell = [&] { between_->after_update(step, taken()); };
  if (meets_after(step)) return joined("h2o.join", tell);
  if (leads()) tell();
}

// Joins and averages once more, so that all nodes are equal.
void ForkJoin::settle() {
  joined("h2o.settle", [&] {
    between_->count(taken());
    between_->settle();
  });
}

// Samples of the node since the last call.
double ForkJoin::taken() {
  double sum = 0;
  for (int member = 0; member < inside_->world(); ++member)
    sum += std::atomic_ref<double>(samples_.data<double>()[member]).exchange(0);
  return sum;
}

void ForkJoin::regrouped() {
  joined("h2o.regrouped", [&] { between_->regrouped(); });
}

std::vector<dist::ModelSum> ForkJoin::model() {
  if (!leads()) return {};
  return dist::over_first_members(between_->model(), inside_->world());
}

std::vector<NamedTensor> ForkJoin::tensors() const {
  return leads() ? between_->tensors() : std::vector<NamedTensor>();
}

dist::OpCounters ForkJoin::exchanged(CommOp op) const {
  return dist::operator+(dist::operator+(RankStrategy::exchanged(op), inside_->exchanged(op)), between_->exchanged(op));
}

std::vector<dist::LawCounter> ForkJoin::counters() const {
  std::vector<dist::LawCounter> all;
  for (const auto& one : inside_->counters()) all.push_back({"inside." + one.name, one.value});
  if (!leads()) return all;
  for (const auto& one : between_->counters()) all.push_back({"between." + one.name, one.value});
  return all;
}

}  // namespace starling
