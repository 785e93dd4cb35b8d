#include "starling/dist/strategy/hogwild.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/strategy/state/moments.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/optim/sgd.h"

namespace starling {

Settings HogwildOptions::settings() {
  using O = HogwildOptions;
  return {setting("atomic", &O::atomic, "keep all of several updates that meet at one weight; slower"),
          setting("lag", &O::lag,
                  "steps that a worker may lie behind the foremost before it leaves out its rows; 0: it never does",
                  {.min = 0, .max = 4096})};
}

Hogwild::Hogwild(std::shared_ptr<Comm> comm, const HogwildOptions& options)
    : dist::RankStrategy(std::move(comm)), options_(options), catch_up_(options.lag) {}

std::string Hogwild::name() const {
  return fmt::format("hogwild({} ranks{})", world(), options_.atomic ? ", atomic" : "");
}

void Hogwild::begin(const dist::TrainedState& state) {
  const auto* sgd = dynamic_cast<const optim::Sgd*>(state.rule);
  check(sgd != nullptr,
        "[hogwild] expected the optimizer sgd, whose update "
        "can be made without locks, got another");
  dist::RankStrategy::begin(state);  // learning rates and step counts stay each rank's own
  optimizer_ = sgd;
  how_ = {.momentum = sgd->attrs().momentum,
          .nesterov = sgd->attrs().nesterov,
          .atomic = options_.atomic,
          .probe = options_.probe};
  std::vector<NamedTensor> shared = state.weights;
  const std::vector<NamedTensor> moments = moments_of(state);
  shared.insert(shared.end(), state.buffers.begin(), state.buffers.end());
  shared.insert(shared.end(), moments.begin(), moments.end());
  done_ = zeros({world()}, DType::i64);
  shared.push_back({"hogwild.done", done_});
  memory_ = std::make_unique<dist::SharedTensors>(comm(), shared);
  for (const auto& weight : state.weights) {
    Rule rule{.weight = weight.tensor};
    for (const auto& group : sgd->groups()) {
      const bool in = std::any_of(group.parameters.begin(), group.parameters.end(),
                                  [&](const Tensor& parameter) { return same(parameter, weight.tensor); });
      if (!in) continue;
      rule.lr_scale = group.lr_scale;
      rule.weight_decay = group.weight_decay.value_or(sgd->attrs().weight_decay);
    }
    for (const auto& moment : moments) {
      if (moment.tensor.name() == weight.tensor.name() + ".velocity") rule.velocity = moment.tensor;
    }
    check(how_.momentum == 0 || rule.velocity.defined(), "[hogwild] expected the velocity of '{}', got none",
          weight.name);
    rules_.push_back(std::move(rule));
  }
  comm().barrier({.name = "hogwild.begin"}).wait();  // all have read what came before
  sent_before_ = comm().journal().total().bytes_sent;
}

std::atomic_ref<std::int64_t> Hogwild::done_by(int rank) const {
  return std::atomic_ref<std::int64_t>(done_.data<std::int64_t>()[rank]);
}

void Hogwild::restored(std::int64_t step) {
  done_by(rank()).store(step, std::memory_order_relaxed);
  catch_up_ = dist::CatchUp(options_.lag);
}

bool Hogwild::closed(std::int64_t step) {
  std::int64_t foremost = 0;
  for (int other = 0; other < world(); ++other)
    foremost = std::max(foremost, done_by(other).load(std::memory_order_relaxed));
  return catch_up_.leaves_out(step, foremost);
}

void Hogwild::update(const Rule& rule, const Tensor& gradient, dist::RacySgd how) {
  how.lr *= rule.lr_scale;
  how.weight_decay = rule.weight_decay;
  const Tensor& w = rule.weight;
  const auto at = [&](const Tensor& tensor, std::int64_t element) -> void* {
    if (!tensor.defined()) return nullptr;
    return static_cast<std::byte*>(tensor.raw()) + element * static_cast<std::int64_t>(size_of(tensor.dtype()));
  };
  if (!is_row_sparse(gradient)) {
    check(gradient.type() == w.type() && gradient.contiguous(), "[hogwild] expected a gradient {}, got {}",
          to_string(w.type()), to_string(gradient.type()));
    written_ += racy_sgd(how, w.dtype(), w.numel(), w.raw(), at(rule.velocity, 0), gradient.raw());
    return;
  }
  const Tensor each = coalesce(gradient);  // a row that occurs twice is one step
  const Tensor rows = rows_of(each), values = row_values(each);
  check(gradient.type() == w.type(), "[hogwild] expected a gradient {}, got rows of {}", to_string(w.type()),
        to_string(gradient.type()));
  const std::int64_t row = w.size(0) > 0 ? w.numel() / w.size(0) : 0;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const std::int64_t number = rows.data<std::int64_t>()[i];
    check(number >= 0 && number < w.size(0), "[hogwild] expected rows of {}, got row {}", to_string(w.type()), number);
    const std::int64_t element = number * row;
    written_ += racy_sgd(how, w.dtype(), row, at(w, element), at(rule.velocity, element), at(values, i * row));
  }
  rows_written_ += rows.numel();
}

void Hogwild::exchange(dist::GradientStep& step) {
  done_by(rank()).store(step.step + 1, std::memory_order_relaxed);
  if (step.weight == 0) {
    ++left_out_;
    return;
  }
  check(step.gradients.size() == rules_.size(), "[hogwild] expected {} gradients, got {}", rules_.size(),
        step.gradients.size());
  dist::RacySgd how = how_;
  how.lr = optimizer_->lr();
  for (std::size_t i = 0; i < rules_.size(); ++i) update(rules_[i], step.gradients[i].tensor, how);
  ++updates_;
}

void Hogwild::settle() { comm().barrier({.name = "hogwild.settle"}).wait(); }

std::vector<dist::LawCounter> Hogwild::counters() const {
  return {{"updates", static_cast<double>(updates_)},
          {"left_out", static_cast<double>(left_out_)},
          {"most_behind", static_cast<double>(catch_up_.most_behind())},
          {"elements_written", static_cast<double>(written_)},
          {"rows_written", static_cast<double>(rows_written_)},
          {"shared_bytes", memory_ ? static_cast<double>(memory_->bytes()) : 0},
          {"bytes_sent", static_cast<double>(comm().journal().total().bytes_sent - sent_before_)}};
}

}  // namespace starling
