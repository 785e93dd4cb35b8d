#include "starling/dist/strategy/local_sgd.h"

#include <cstring>
#include <numeric>

#include "starling/base/error.h"
#include "starling/dist/strategy/state/moments.h"
#include "starling/dist/strategy/state/on_host.h"
#include "starling/tensor/bytes.h"

namespace starling {

Settings LocalSgdOptions::settings() {
  using O = LocalSgdOptions;
  return {setting("every", &O::every, "local steps between two averages of the weights", {.min = 1}),
          setting("average_optimizer", &O::average_optimizer,
                  "average the optimizer's moments too; else every worker keeps its own"),
          setting("reset_optimizer", &O::reset_optimizer, "the optimizer's moments are 0 after an average"),
          setting("outer_lr", &O::outer_lr, "how much of the way to the average is gone", {.min = 0}),
          setting("outer_momentum", &O::outer_momentum, "of the way gone by the averages (BMUF, DiLoCo); 0: none",
                  {.min = 0, .max = 1}),
          setting("outer_nesterov", &O::outer_nesterov, "look ahead along the outer momentum")};
}

LocalSgd::LocalSgd(std::shared_ptr<Comm> comm, const LocalSgdOptions& options)
    : dist::RankStrategy(std::move(comm)), options_(options), samples_(zeros({1}, DType::f64)) {
  check(options_.every >= 1, "[local_sgd] expected at least 1 step between averages, got {}", options_.every);
  check(
      !options_.average_optimizer || !options_.reset_optimizer,
      "[local_sgd] expected average_optimizer or reset_optimizer, got both: moments that are set to 0 after an average "
      "need none (leave one of them out)");
}

std::string LocalSgd::name() const {
  return fmt::format("local_sgd({} ranks, every {} steps{})", world(), options_.every,
                     outer() ? ", outer momentum" : "");
}

void LocalSgd::begin(const dist::TrainedState& state) {
  dist::RankStrategy::begin(state);
  begun_bytes_ = moved(CommOp::all_reduce);
  std::vector<NamedTensor> others;
  for (const auto& buffer : state.buffers) (is_float(buffer.tensor.dtype()) ? others : counted_).push_back(buffer);
  const std::vector<NamedTensor> moments = moments_of(state);
  if (options_.average_optimizer) others.insert(others.end(), moments.begin(), moments.end());
  own_state_ = !options_.average_optimizer && !moments.empty();
  if (own_state_) moments_ = moments;
  averaged_ = state.weights;
  averaged_.insert(averaged_.end(), others.begin(), others.end());
  weights_ = dist::flatten(state.weights);
  others_ = dist::flatten(others);
  if (!outer()) return;
  for (auto& flat : weights_) {
    flat.pack();
    Tensor anchor = empty({flat.count()}, flat.dtype());
    std::memcpy(anchor.raw(), flat.data(), static_cast<std::size_t>(flat.bytes()));
    anchor_.push_back(anchor);
    velocity_.push_back(zeros({flat.count()}, flat.dtype()));
  }
}

// Total samples of all ranks since the last average.
double LocalSgd::agree_on_samples() {
  double total = 0;
  comm().all_reduce(samples_.raw(), &total, 1, DType::f64, ReduceOp::sum, {.name = "local_sgd.samples"}).wait();
  return total;
}

void LocalSgd::average(dist::FlatTensors& flat, double share) {
  flat.pack();
  dist::scale_add(flat.dtype(), flat.count(), share, flat.data(), 0, flat.data());
  comm()
      .all_reduce(flat.data(), flat.data(), flat.count(), flat.dtype(), ReduceOp::sum, {.name = "local_sgd.average"})
      .wait();
}

// v = m·v + (anchor - mean); anchor -= lr · (nesterov ? (anchor - mean) + m·v : v), and the weights are the anchor.
void LocalSgd::outer_step(std::size_t i) {
  dist::FlatTensors& flat = weights_[i];
  const DType dtype = flat.dtype();
  const std::int64_t n = flat.count();
  void* mean = flat.data();
  void* anchor = anchor_[i].raw();
  void* velocity = velocity_[i].raw();
  dist::scale_add(dtype, n, 1, anchor, -1, mean);  // anchor - mean
  dist::scale_add(dtype, n, 1, mean, options_.outer_momentum, velocity);
  if (options_.outer_nesterov) {
    dist::scale_add(dtype, n, -options_.outer_lr, mean, 1, anchor);
    dist::scale_add(dtype, n, -options_.outer_lr * options_.outer_momentum, velocity, 1, anchor);
  } else {
    dist::scale_add(dtype, n, -options_.outer_lr, velocity, 1, anchor);
  }
  std::memcpy(mean, anchor, static_cast<std::size_t>(flat.bytes()));
}

void LocalSgd::sync() {
  if (world() == 1 && !outer()) {
    together_ = true;
    return;
  }
  const double total = agree_on_samples();
  together_ = true;
  if (total == 0) return;  // no rank has trained
  ++syncs_;
  double& own = *samples_.data<double>();
  const double share = own / total;
  own = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    average(weights_[i], share);
    if (outer()) outer_step(i);
    weights_[i].unpack();
  }
  for (auto& flat : others_) {
    average(flat, share);
    flat.unpack();
  }
  dist::broadcast_tensors(comm(), counted_, 0, "local_sgd.counts");
  if (!options_.reset_optimizer) return;
  for (const auto& [name, moment] : moments_)
    dist::write_on_host(moment, false, [](const Tensor& host) { std::memset(host.raw(), 0, bytes_of(host)); });
}

// The mean of all ranks, each by its samples since the last average; after an average only moments differ. The way gone
// since then is part of it, so that an outer step waits for the next average.
std::vector<dist::ModelSum> LocalSgd::model() {
  if (world() == 1) return {};
  if (!saving_) saving_ = comm().split(0, rank());
  std::vector<double> shares(static_cast<std::size_t>(world()));
  saving_->all_gather(samples_.raw(), shares.data(), 1, DType::f64, {.name = "local_sgd.model"}).wait();
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = total > 0 ? share / total : 1.0 / world();
  std::vector<NamedTensor> differ = moments_;
  if (total > 0) differ.insert(differ.end(), averaged_.begin(), averaged_.end());
  std::vector<dist::ModelSum> all;
  for (const NamedTensor& one : differ) all.push_back({.name = one.name, .shares = shares});
  return all;
}

// All ranks begin together, from the mean.
void LocalSgd::regrouped() {
  *samples_.data<double>() = 0;
  together_ = true;
}

void LocalSgd::after_update(std::int64_t step, double weight) {
  ++steps_;
  *samples_.data<double>() += weight;
  together_ = false;
  if (meets_after(step)) sync();
}

void LocalSgd::settle() { sync(); }

bool LocalSgd::settled() const { return world() == 1 || (together_ && !own_state_); }

std::vector<NamedTensor> LocalSgd::tensors() const {
  std::vector<NamedTensor> all{{"local_sgd.samples", samples_}};
  for (std::size_t i = 0; i < anchor_.size(); ++i) {
    const auto dtype = starling::name(weights_[i].dtype());
    all.push_back({fmt::format("local_sgd.anchor.{}", dtype), anchor_[i]});
    all.push_back({fmt::format("local_sgd.velocity.{}", dtype), velocity_[i]});
  }
  return all;
}

std::vector<dist::LawCounter> LocalSgd::counters() const {
  return {{"steps", static_cast<double>(steps_)},
          {"syncs", static_cast<double>(syncs_)},
          {"averaged_bytes", static_cast<double>(moved(CommOp::all_reduce) - begun_bytes_)}};
}

}  // namespace starling
