// Parts of FitRun for several ranks: starting together, agreeing after steps, settling, saving and resuming.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "starling/base/clock.h"
#include "starling/base/error.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/train/loop/fit_run.h"
#include "starling/train/ranks/report.h"
#include "starling/train/run/copy_tensors.h"

namespace starling::train {
namespace {

// Steps that ranks of an asynchronous strategy may be apart before the faster ones wait for notes of the others.
// Collectives inside programs keep ranks together anyway.
constexpr std::size_t kApart = 16;

// Tensors that all ranks make together lie elsewhere, until they are written.
void put_elsewhere(const std::vector<dist::ModelSum>& sums, std::vector<NamedTensor>& tensors) {
  for (const dist::ModelSum& sum : sums) {
    const auto old =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name == sum.name; });
    check(old != tensors.end(), "[train] expected the state to hold '{}', got a model with it", sum.name);
    old->tensor = empty(old->tensor.shape(), old->tensor.dtype(), {.kind = DeviceKind::null});
  }
}

// Tensors of a checkpoint that was not shared among the ranks are all here.
void bring_into(const Checkpoint& from, const NamedTensor& saved, const Tensor& to) {
  from.fetch ? fetch_into(from, saved, to) : copy_into(to, saved.tensor);
}

// Adds the values of a saved tensor, a piece at a time where they can be added in place.
void add_into(const Checkpoint& from, const NamedTensor& saved, const Tensor& to) {
  if (!from.fetch || to.device() != kCpu || !to.contiguous()) {
    const Tensor part = empty(saved.tensor.shape(), saved.tensor.dtype());
    bring_into(from, saved, part);
    return copy_into(to, add(data::on_host(to), part));
  }
  const auto element = static_cast<std::int64_t>(size_of(to.dtype()));
  auto* at = static_cast<std::byte*>(to.raw());
  from.fetch(saved, [&](std::span<const std::byte> bytes) {
    dist::scale_add(to.dtype(), std::ssize(bytes) / element, 1, bytes.data(), 1, at);
    at += bytes.size();
    return true;
  });
  to.impl()->storage->bump_version();
}

// Gives independent programs different random noise.
void vary_noise(int number) {
  if (number == 0) return;
  constexpr std::int64_t kStride = 1'000'003;
  const Tensor key = data::on_host(default_generator().key());
  auto* seed = key.data<std::int64_t>();
  seed[0] += number * kStride;
  copy_into(default_generator().key(), key);
}

}  // namespace

dist::TrainedState FitRun::trained_state() const {
  dist::TrainedState state{.rule = &parts_.optimizer};
  for (auto& [name, tensor] : parts_.net.named_parameters()) state.weights.push_back({name, tensor});
  for (auto& [name, tensor] : parts_.net.named_buffers()) state.buffers.push_back({name, tensor});
  for (auto& [name, tensor] : parts_.optimizer.state()) state.optimizer.push_back({name, tensor});
  return state;
}

void FitRun::begin_ranks() {
  if (!parts_.link) return;
  parts_.link->meet();  // rank 0 may be pre-training
  stats_.assign(static_cast<std::size_t>(parts_.link->size()), {});
  if (plan_.rolled_back == 0) strategy().begin(trained_state());
  if (resumed_) restore_rank();
  const int alike = strategy().global_program() ? plan_.ranks / strategy().groups() : 1;  // ranks that share a program
  vary_noise(plan_.rank / alike);
  compare_replicas();
  count_exchanges(before_);  // excludes the exchanges of the start
  agree(true);
}

// Restores this rank's own part of the checkpoint, now that the strategy has created its tensors.
void FitRun::restore_rank() {
  const bool has_own = std::any_of(saved_.begin(), saved_.end(), [](const auto& one) { return !one.name.empty(); });
  const bool regrouped = other_strategy_ || (saved_by_ != plan_.ranks && has_own);
  if (other_strategy_)
    note(fmt::format("the checkpoint is of another strategy: {} goes on from the model alone", strategy().name()));
  else if (regrouped)
    note(fmt::format("the checkpoint is of {} ranks, this run has {}: all resume from what those had made together",
                     saved_by_, plan_.ranks));
  std::vector<NamedTensor> into;
  for (const auto& [name, tensor] : strategy().tensors()) into.push_back({"strategy." + name, tensor});
  const dist::TrainedState state = trained_state();
  for (const auto* part : {&state.weights, &state.buffers, &state.optimizer}) {
    for (const auto& [name, tensor] : *part) into.push_back({"state." + name, tensor});
  }
  // All ranks bring all tensors together, whoever has use for them, in the order of the file.
  std::set<std::string> begun;
  for (const auto& [saved, name, is_part] : saved_) {
    const auto found = std::find_if(into.begin(), into.end(), [&](const auto& one) { return one.name == name; });
    // Tensors that a strategy keeps on rank 0 only are not for the others, and a rank alone may need none.
    const bool needless = regrouped && (plan_.rank > 0 || plan_.ranks == 1) && name.starts_with("strategy.");
    if (name.empty() || (found == into.end() && needless)) {
      if (saved_ranks_.fetch) saved_ranks_.fetch(saved, [](std::span<const std::byte>) { return true; });
      continue;
    }
    check(found != into.end() && found->tensor.type() == saved.tensor.type(),
          "[train] expected a checkpoint of the strategy {}, got one with '{}' of {}", strategy().name(), name,
          to_string(saved.tensor.type()));
    if (is_part && !begun.insert(name).second)
      add_into(saved_ranks_, saved, found->tensor);
    else
      bring_into(saved_ranks_, saved, found->tensor);
    if (saved.tensor.device() == kCpu) check_mapped(saved.tensor.raw());
  }
  saved_.clear();
  saved_ranks_ = {};
  strategy().restored(state_.step);
  if (regrouped) strategy().regrouped();
}

// Cost of the strategy's exchanges so far.
void FitRun::count_exchanges(RankStats& stats) const {
  stats.sent = stats.received = 0;
  for (int op = 0; op < kCommOpCount; ++op) {
    const dist::OpCounters one = strategy().exchanged(static_cast<CommOp>(op));
    stats.wait[static_cast<std::size_t>(op)] = static_cast<double>(one.wait_ns) / 1e9;
    stats.sent += one.bytes_sent;
    stats.received += one.bytes_received;
  }
}

StepNote FitRun::note_of_step() {
  note_.step = state_.step;
  note_.clock = steady_seconds() - began_;
  note_.interrupted = parts_.options.stop && parts_.options.stop() ? 1 : 0;
  note_.ended = end_wanted_.empty() ? 0 : 1;
  count_exchanges(note_.stats);
  const RankStats since = between({&before_, 1}, {&note_.stats, 1})[0];
  note_.stats.wait = since.wait;
  note_.stats.wait[static_cast<std::size_t>(CommOp::all_gather)] += told_wait_;  // waits for notes
  note_.stats.sent = since.sent;
  note_.stats.received = since.received;
  return note_;
}

// Sends a note of the last step and receives the others': of the same step if the ranks are in lockstep, else of some
// steps ago, so that nobody waits for the slowest. All ranks receive the same notes at the same step.
void FitRun::agree(bool all) {
  if (!parts_.link) return;
  parts_.link->post(note_of_step());
  parts_.link->progress();
  if (rank_progress() != nullptr) rank_progress()->set_step(state_.step);
  note_.loss = note_.weight = 0;
  note_.not_finite = note_.unchecked = 0;
  const bool meet = strategy().meets_after(state_.step - 1) && !strategy().meets_alone();
  const bool together = strategy().lockstep() || meet;
  const std::size_t apart = all || together ? 0 : kApart;
  const double asked = steady_seconds();
  while (parts_.link->outstanding() > apart) consume(parts_.link->take());
  const double waited = steady_seconds() - asked;
  told_wait_ += waited;
  note_.stats.seconds += waited;
  const std::int64_t every = parts_.options.hash_every;
  if (together && every > 0 && state_.step / every != compared_step_ / every) {
    compared_step_ = state_.step;
    compare_replicas();
  }
}

// Takes the notes of all steps so far. Collective: all ranks are at the same step. A checkpoint then holds no step that
// another rank has found to be bad without this one knowing: going back to it always undoes that step.
void FitRun::hear_all() {
  while (parts_.link->outstanding() > 0) consume(parts_.link->take());
}

// Ends the run on all ranks for what one of them has seen.
void FitRun::refuse(const StepNote& note, int rank) const {
  if (note.not_finite == StepNote::kState)
    throw not_finite_state(
        fmt::format("on rank {}{}", rank, rank == plan_.rank ? fmt::format(" ('{}')", not_finite_) : ""), note.step,
        note.step - note.unchecked);
  const std::string text =
      note.not_finite == StepNote::kLoss
          ? fmt::format("[train] expected a finite loss, got one on rank {} at step {} that is not", rank, note.step)
          : fmt::format("[train] expected finite gradients, got others on rank {} at step {}", rank, note.step);
  throw NotFiniteError(text, note.step, note.step - 1);
}

void FitRun::consume(const std::vector<StepNote>& notes) {
  double loss = 0;
  double weight = 0;
  for (std::size_t rank = 0; rank < notes.size(); ++rank) {
    const StepNote& note = notes[rank];
    if (note.not_finite != 0) refuse(note, static_cast<int>(rank));
    interrupted_ = interrupted_ || note.interrupted != 0;
    if (note.ended != 0 && ended_by_.empty())
      ended_by_ = end_wanted_.empty() ? fmt::format("a callback on rank {}", rank) : end_wanted_;
    loss += note.loss;
    weight += note.weight;
    stats_[rank] = note.stats;
  }
  clock_ = notes[0].clock;
  if (weight > 0) add_loss(loss / weight, weight);
}

// Verifies that replicas are equal, if the strategy says they should be: those of whole weights, and of pieces those of
// ranks that differ along other axes only.
void FitRun::compare_replicas() {
  if (plan_.ranks <= 1 || !strategy().settled()) return;
  std::vector<NamedTensor> weights = trained_state().weights;
  const dist::ShardedState* sharded = strategy().sharded();
  if (sharded != nullptr) parts_.link->expect_equal_pieces(weights, *sharded, state_.step);
  std::erase_if(weights, [&](const auto& one) { return sharded && sharded->piece(one.tensor) != nullptr; });
  parts_.link->expect_equal(weights, state_.step);
}

// Brings all ranks to one model at the end; true if it differs from the one evaluated last. An interrupted run is not
// settled: it resumes from each rank's own state.
bool FitRun::settle() {
  if (!parts_.link) return false;
  agree(true);
  if (finished()) interrupted_ = false;  // stop was requested after the last step
  const bool moves = !interrupted_ && strategy().settling_changes();
  if (!interrupted_) strategy().settle();
  sum_up_ranks();
  return moves;
}

// At the end: whoever has the network now finds all of it.
void FitRun::show_whole() {
  if (!parts_.link || strategy().sharded() == nullptr || !parts_.options.whole_at_end) return;
  strategy().show();
  shown_ = true;
}

// Tensors of this rank alone that a checkpoint needs; `sums` are those that all ranks make together while it is
// written.
std::vector<NamedTensor> FitRun::rank_tensors(Checkpoint& checkpoint, std::vector<dist::ModelSum>& sums) {
  checkpoint.extra["ranks"] = {{"ranks", plan_.ranks}, {"strategy", strategy().name()}, {"model", true}};
  std::vector<NamedTensor> own;
  for (const auto& [name, tensor] : strategy().tensors()) own.push_back({"strategy." + name, tensor});
  if (strategy().settled()) {
    compare_replicas();
  } else {
    const dist::TrainedState state = trained_state();
    for (const auto* part : {&state.weights, &state.buffers, &state.optimizer}) {
      for (const auto& [name, tensor] : *part) own.push_back({"state." + name, tensor});
    }
    sums = strategy().model();
    if (plan_.rank != 0) sums.clear();
    put_elsewhere(sums, checkpoint.tensors);
  }
  return own;
}

namespace {

// "allreduce(4 ranks, zero 3)" → "allreduce".
std::string kind_of(const std::string& strategy) { return strategy.substr(0, strategy.find('(')); }

constexpr std::string_view kOfStrategy = "strategy.";

// "rank.3.strategy.error" → "strategy.error".
std::string without_number(const std::string& name) {
  constexpr std::size_t kPrefix = std::string_view("rank.").size();
  const std::size_t dot = name.find('.', kPrefix);
  return dot == std::string::npos ? std::string() : name.substr(dot + 1);
}

// Names of the tensors in a checkpoint that are parts of a sum over ranks, by the name of the sum.
using PartNames = std::map<std::string, std::set<std::string>>;

// Refuses sums that lack what a rank kept: the rest alone would pass for the whole.
void expect_parts(const PartNames& parts, int ranks) {
  for (const auto& [name, held] : parts) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string part = fmt::format("rank.{}.{}", rank, name);
      check(held.contains(part),
            "[train] expected the checkpoint to hold '{}', as each of its {} ranks kept a part, got {} of them", part,
            ranks, held.size());
    }
  }
}

}  // namespace

// Keeps this rank's part of a checkpoint. If another number of ranks made it, that is what the strategy of rank 0
// keeps: the state of all is then the model that the checkpoint holds. Of another strategy there is that alone.
void FitRun::keep_ranks(const Checkpoint& checkpoint) {
  const nlohmann::json made = checkpoint.extra.value("ranks", nlohmann::json::object());
  saved_by_ = made.value("ranks", 0);
  other_strategy_ =
      made.contains("strategy") && kind_of(made.at("strategy").get<std::string>()) != kind_of(strategy().name());
  const bool whole = (saved_by_ != plan_.ranks || other_strategy_) && made.value("model", false);
  const std::string prefix = fmt::format("rank.{}.", saved_by_ == plan_.ranks ? plan_.rank : 0);
  saved_.clear();
  saved_ranks_ = {};
  saved_ranks_.fetch = checkpoint.fetch;
  PartNames parts;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!name.starts_with("rank.")) continue;
    const bool part = whole && !other_strategy_ && is_part(name);
    const bool own = !other_strategy_ && name.starts_with(prefix) && !(whole && name.starts_with(prefix + "state."));
    if (part) parts[without_number(name)].insert(name);
    saved_.push_back({{name, tensor}, part || own ? without_number(name) : "", part});
  }
  expect_parts(parts, saved_by_);
}

// True for tensors of which every rank held a part.
bool FitRun::is_part(const std::string& saved) const {
  const std::string name = without_number(saved);
  return name.starts_with(kOfStrategy) && strategy().sums_over_ranks(name.substr(kOfStrategy.size()));
}

void FitRun::sum_up_ranks() {
  nlohmann::json counters = nlohmann::json::object();
  for (const auto& [name, value] : strategy().counters()) counters[name] = value;
  const auto told = parts_.link->gather(counters.dump());
  ranks_summary_.clear();
  for (std::size_t rank = 0; rank < told.size(); ++rank)
    ranks_summary_.push_back({.stats = stats_[rank], .counters = nlohmann::json::parse(told[rank])});
  if (const std::string slow = describe_straggler(stats_); !slow.empty()) note(slow);
}

}  // namespace starling::train
