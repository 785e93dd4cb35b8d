#include "starling/dist/strategy/easgd.h"

#include <algorithm>
#include <cstring>

#include "starling/base/error.h"
#include "starling/dist/strategy/state/moments.h"
#include "starling/dist/strategy/uneven/coordinator.h"

namespace starling {
namespace {

// into := alpha · (x - centre)
void pull_of(dist::FlatTensors& into, const dist::FlatTensors& x, const Tensor& centre, double alpha) {
  std::memcpy(into.data(), x.data(), static_cast<std::size_t>(x.bytes()));
  dist::scale_add(x.dtype(), x.count(), -alpha, centre.raw(), alpha, into.data());
}

}  // namespace

Settings EasgdOptions::settings() {
  using O = EasgdOptions;
  return {setting("every", &O::every, "local steps between two pulls towards the centre", {.min = 1}),
          setting("alpha", &O::alpha, "share of the distance that a pull goes; 0: 0.9 divided by the workers",
                  {.min = 0, .max = 1}),
          setting("asynchronous", &O::asynchronous, "workers meet the centre one by one, when they are ready"),
          setting("lag", &O::lag,
                  "asynchronous: steps that a worker may lie behind the foremost before it leaves out its rows; 0: it "
                  "never does",
                  {.min = 0, .max = 4096})};
}

// Notes of workers, with the steps they have made: kMeet is followed by their weights, kAsk asks for the foremost step.
enum NoteKind : std::int64_t { kMeet = 0, kAsk = 1 };

// Aggregator of the centre on rank 0. Used by rank 0's own thread and the coordinator's, under a lock.
struct Easgd::CentreServer final : dist::Coordinator::Handler {
  CentreServer(Easgd& strategy, const std::vector<NamedTensor>& weights) : owner(strategy) {
    for (int rank = 0; rank < owner.world(); ++rank) {
      met.push_back(std::make_shared<std::vector<dist::FlatTensors>>(dist::flatten(weights)));
      came_from.push_back(false);
      asks.push_back(false);
    }
  }

  std::span<dist::FlatTensors> payload_of(int worker, const dist::Note& note) override {
    if (note.kind == kAsk) return {};
    return *met[static_cast<std::size_t>(worker)];
  }

  // Received: the worker's weights; answered: d.
  void came(int worker, const dist::Note& note) override {
    has_done(note.step);
    if (note.kind == kAsk) {
      asks[static_cast<std::size_t>(worker)] = true;
      return;
    }
    elastic(*met[static_cast<std::size_t>(worker)]);
    came_from[static_cast<std::size_t>(worker)] = true;
  }

  void elastic(std::vector<dist::FlatTensors>& x) {
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < x.size(); ++i) {
      dist::scale_add(x[i].dtype(), x[i].count(), -owner.alpha_, owner.centre_[i].raw(), owner.alpha_, x[i].data());
      dist::scale_add(x[i].dtype(), x[i].count(), 1, x[i].data(), 1, owner.centre_[i].raw());
    }
    ++pulls;
  }

  void has_done(std::int64_t steps) {
    const std::scoped_lock lock(mutex);
    foremost = std::max(foremost, steps);
  }

  std::int64_t most_done() const {
    const std::scoped_lock lock(mutex);
    return foremost;
  }

  bool answer(dist::Coordinator& lines) override {
    bool answered = false;
    for (std::size_t worker = 1; worker < met.size(); ++worker) {
      if (!came_from[worker] && !asks[worker]) continue;
      lines.send(static_cast<int>(worker), {.newest = most_done()}, came_from[worker] ? met[worker] : nothing);
      came_from[worker] = asks[worker] = false;
      answered = true;
    }
    return answered;
  }

  void failed() override {}

  Easgd& owner;
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<std::vector<dist::FlatTensors>>> met;  // received weights, then d; by rank
  const std::shared_ptr<std::vector<dist::FlatTensors>> nothing = std::make_shared<std::vector<dist::FlatTensors>>();
  std::vector<bool> came_from, asks;
  std::int64_t pulls = 0, foremost = 0;
  std::unique_ptr<dist::Coordinator> coordinator;  // last, to be destroyed before what it uses
};

struct Easgd::CentreClient {
  explicit CentreClient(std::unique_ptr<Comm> comm) : line(std::move(comm)) {}
  dist::WorkerLine line;
};

Easgd::Easgd(std::shared_ptr<Comm> comm, const EasgdOptions& options)
    : dist::RankStrategy(std::move(comm)),
      options_(options),
      alpha_(options.alpha > 0 ? options.alpha : 0.9 / world()),
      catch_up_(options.asynchronous ? options.lag : 0) {
  check(options_.every >= 1, "[easgd] expected at least 1 step between pulls, got {}", options_.every);
  check(alpha_ <= 1, "[easgd] expected an alpha of at most 1, got {}", alpha_);
  check(options_.asynchronous || alpha_ * world() <= 1 + 1e-9,
        "[easgd] expected alpha times the {} workers to be at most 1, else the centre swings, got {}", world(),
        alpha_ * world());
}

Easgd::~Easgd() = default;

std::string Easgd::name() const {
  return fmt::format("easgd({} ranks, every {} steps, alpha {:.3g}, {})", world(), options_.every, alpha_,
                     options_.asynchronous ? "asynchronous" : "synchronous");
}

void Easgd::begin(const dist::TrainedState& state) {
  dist::RankStrategy::begin(state);
  buffers_ = state.buffers;
  named_weights_ = state.weights;
  moments_ = dist::moments_of(state);
  weights_ = dist::flatten(state.weights);
  pulls_ = weights_;
  if (!options_.asynchronous || rank() == 0) {
    for (auto& flat : weights_) {
      flat.pack();
      Tensor centre = empty({flat.count()}, flat.dtype());
      std::memcpy(centre.raw(), flat.data(), static_cast<std::size_t>(flat.bytes()));
      centre_.push_back(centre);
    }
  }
  if (!options_.asynchronous) return;
  auto lines = dist::make_lines(comm());
  if (rank() > 0) {
    client_ = std::make_unique<CentreClient>(std::move(lines[0]));
    return;
  }
  server_ = std::make_unique<CentreServer>(*this, state.weights);
  if (world() > 1) server_->coordinator = std::make_unique<dist::Coordinator>(std::move(lines), *server_);
}

// Synchronous pull of all ranks: x -= d here, the sum of all d is added to every copy of the centre.
void Easgd::meet_all() {
  const std::uint64_t before = moved(CommOp::all_reduce);
  std::vector<Work> works;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    dist::FlatTensors &x = weights_[i], &d = pulls_[i];
    x.pack();
    pull_of(d, x, centre_[i], alpha_);
    dist::scale_add(x.dtype(), x.count(), -1, d.data(), 1, x.data());
    works.push_back(
        comm().all_reduce(d.data(), d.data(), d.count(), d.dtype(), ReduceOp::sum, {.name = "easgd.pulls"}));
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].unpack();
    works[i].wait();
    dist::scale_add(pulls_[i].dtype(), pulls_[i].count(), 1, pulls_[i].data(), 1, centre_[i].raw());
  }
  bytes_ += moved(CommOp::all_reduce) - before;
}

void Easgd::restored(std::int64_t step) {
  foremost_ = step;
  asked_ = -1;
  explored_ = true;  // the weights are the ranks' own again
  catch_up_ = dist::CatchUp(options_.asynchronous ? options_.lag : 0);
  if (!server_) return;
  const std::scoped_lock lock(server_->mutex);
  server_->foremost = step;  // back to it, if the run has rolled back
}

// Step of the foremost rank, as known to rank 0; asked often enough to detect a lag, not at every step.
std::int64_t Easgd::foremost(std::int64_t step) {
  if (server_) {
    server_->has_done(step);
    return server_->most_done();
  }
  const std::int64_t every = std::max<std::int64_t>(1, options_.lag / 2);
  if (step % every == 0 && step != asked_) {
    asked_ = step;
    client_->line.tell({.kind = kAsk, .step = step});
    foremost_ = client_->line.hear({}).newest;
  }
  return foremost_;
}

bool Easgd::closed(std::int64_t step) {
  if (!options_.asynchronous || options_.lag == 0 || world() == 1) return false;
  return catch_up_.leaves_out(step, foremost(step));
}

void Easgd::meet_centre(std::int64_t step) {
  for (auto& x : weights_) x.pack();
  if (client_) {
    const std::uint64_t before = moved(CommOp::send) + moved(CommOp::recv);
    client_->line.tell({.kind = kMeet, .step = step + 1}, weights_);
    foremost_ = client_->line.hear(pulls_).newest;
    bytes_ += moved(CommOp::send) + moved(CommOp::recv) - before;
  } else {
    if (server_->coordinator) server_->coordinator->rethrow();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      std::memcpy(pulls_[i].data(), weights_[i].data(), static_cast<std::size_t>(weights_[i].bytes()));
    server_->elastic(pulls_);
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    dist::scale_add(weights_[i].dtype(), weights_[i].count(), -1, pulls_[i].data(), 1, weights_[i].data());
    weights_[i].unpack();
  }
}

void Easgd::after_update(std::int64_t step, double weight) {
  ++(weight > 0 ? steps_ : left_out_);
  explored_ = true;
  if (!meets_after(step)) return;
  ++meetings_;
  options_.asynchronous ? meet_centre(step) : meet_all();
}

// Sets this rank's weights to the centre.
void Easgd::take_centre(const char* what) {
  if (options_.asynchronous) comm().barrier({.name = what}).wait();  // no pull on the centre is in flight
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    dist::FlatTensors& flat = weights_[i];
    if (!centre_.empty()) std::memcpy(flat.data(), centre_[i].raw(), static_cast<std::size_t>(flat.bytes()));
    if (options_.asynchronous)
      comm().broadcast(flat.data(), flat.count(), flat.dtype(), 0, {.name = "easgd.centre"}).wait();
    flat.unpack();
  }
}

void Easgd::show() {
  own_.clear();
  for (auto& flat : weights_) {
    flat.pack();
    own_.push_back(empty({flat.count()}, flat.dtype()));
    std::memcpy(own_.back().raw(), flat.data(), static_cast<std::size_t>(flat.bytes()));
  }
  take_centre("easgd.show");
}

void Easgd::unshow() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    std::memcpy(weights_[i].data(), own_[i].raw(), static_cast<std::size_t>(weights_[i].bytes()));
    weights_[i].unpack();
  }
  own_.clear();
}

void Easgd::settle() {
  take_centre("easgd.settle");
  dist::broadcast_tensors(comm(), buffers_, 0, "easgd.buffers");
  explored_ = false;
}

// The centre after one more pull of every rank: centre + alpha · Σ (x - centre). Moments are means.
std::vector<dist::ModelSum> Easgd::model() {
  if (!explored_) return {};  // all hold the centre
  const auto ranks = static_cast<std::size_t>(world());
  const double pull = std::min(alpha_, 1.0 / world());
  std::vector<dist::ModelSum> all;
  for (std::size_t i = 0; i < centre_.size(); ++i) {
    std::int64_t begin = 0;
    for (const Tensor& weight : weights_[i].tensors()) {
      const auto named = std::find_if(named_weights_.begin(), named_weights_.end(),
                                      [&](const NamedTensor& one) { return same(one.tensor, weight); });
      all.push_back({.name = named->name,
                     .shares = std::vector<double>(ranks, pull),
                     .base = centre_[i],
                     .begin = begin,
                     .base_share = 1 - pull * world()});
      begin += weight.numel();
    }
  }
  for (const NamedTensor& moment : moments_)
    all.push_back({.name = moment.name, .shares = std::vector<double>(ranks, 1.0 / world())});
  return all;
}

void Easgd::regrouped() {
  for (std::size_t i = 0; i < centre_.size(); ++i) {
    weights_[i].pack();
    std::memcpy(centre_[i].raw(), weights_[i].data(), static_cast<std::size_t>(weights_[i].bytes()));
  }
  settle();
}

std::vector<NamedTensor> Easgd::tensors() const {
  std::vector<NamedTensor> all;
  for (const auto& centre : centre_)
    all.push_back({fmt::format("easgd.centre.{}", starling::name(centre.dtype())), centre});
  return all;
}

dist::OpCounters Easgd::exchanged(CommOp op) const {
  const dist::OpCounters own = dist::RankStrategy::exchanged(op);
  if (server_ && server_->coordinator) return own + server_->coordinator->exchanged(op);
  return client_ ? own + client_->line.exchanged(op) : own;
}

std::vector<dist::LawCounter> Easgd::counters() const {
  std::vector<dist::LawCounter> all{{"steps", static_cast<double>(steps_)},
                                    {"left_out", static_cast<double>(left_out_)},
                                    {"most_behind", static_cast<double>(catch_up_.most_behind())},
                                    {"meetings", static_cast<double>(meetings_)},
                                    {"elastic_bytes", static_cast<double>(bytes_)}};
  if (!server_) return all;
  const std::scoped_lock lock(server_->mutex);
  all.push_back({"pulls_on_centre", static_cast<double>(server_->pulls)});
  return all;
}

}  // namespace starling
