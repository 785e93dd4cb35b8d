#include "starling/train/loop/fit_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <utility>

#include "starling/base/clock.h"
#include "starling/base/error.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/random.h"
#include "starling/tensor/allocator.h"
#include "starling/train/loop/bad_input.h"
#include "starling/train/run/run_checkpoint.h"
#include "starling/train/run/weights_hash.h"

namespace starling::train {
namespace {

constexpr double kLowestScale = 1.0 / 16384;  // smallest f16 loss scale; below, the network itself overflows

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

double seconds_between(SteadyClock::time_point start, SteadyClock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Of "'fc.weight'" and of "'fc.weight' and 2 more".
const char* verb_of(const std::string& gradients) {
  return gradients.find(" more") == std::string::npos ? "is" : "are";
}

// "the loss is", "the gradients 'fc.weight' and 2 more are".
std::string is_or_are(const std::string& what) {
  const bool gradients = what.starts_with("'");
  const char* verb = verb_of(what);
  return fmt::format("{}{} {}",
                     !gradients                       ? ""
                     : verb == std::string_view("is") ? "the gradient "
                                                      : "the gradients ",
                     what, verb);
}

RunPlan make_plan(const TrainerOptions& options, const Loader& loader, const RankLink* link,
                  std::vector<std::string> class_names) {
  const bool whole_set = options.pool && options.pool->has_procedure();  // of which each step is an epoch
  RunPlan plan{.epochs = options.epochs,
               .batch = options.batch,
               .seed = options.seed,
               .folder = options.folder,
               .class_names = std::move(class_names)};
  if (link != nullptr) {
    plan.rank = link->rank();
    plan.ranks = link->size();
  }
  const bool told = !loader.streams() || plan.ranks == 1;  // a streaming rank knows only its own shards
  if (told && loader.samples_per_epoch() > 0) {
    plan.samples_per_epoch = loader.samples_per_epoch();
    plan.steps_per_epoch = whole_set ? 1 : ceil_div(loader.batches_per_epoch(), options.accumulate);
    plan.steps = plan.steps_per_epoch * options.epochs;
  }
  if (options.steps > 0) plan.steps = plan.steps > 0 ? std::min(plan.steps, options.steps) : options.steps;
  return plan;
}

}  // namespace

FitRun::FitRun(const Parts& parts, Loader& loader, EvaluationData test, std::vector<std::string> class_names)
    : parts_(parts),
      feed_(loader, parts.link),
      test_(std::move(test)),
      plan_(make_plan(parts.options, loader, parts.link, std::move(class_names))),
      progress_(parts.options.progress) {
  plan_.rolls_back = parts.rollbacks.most() > 0;
  plan_.rolled_back = parts.rollbacks.count();
  for (const auto& [name, metric] : parts.evaluator.metrics())
    plan_.metrics.push_back({name, metric->higher_is_better()});
}

void FitRun::each(void (Callback::*event)(Run&)) {
  for (const auto& callback : parts_.callbacks) (callback.get()->*event)(*this);
}

// Seeds the generator, so that steps count from 0 whatever its state was.
void FitRun::begin() {
  began_ = steady_seconds();
  started_ = unix_seconds();
  if (!plan_.folder.empty() && plan_.rank == 0) lock_.emplace(plan_.folder);
  if (parts_.link) parts_.link->expect_same_job(parts_.options.identity);
  manual_seed(parts_.options.seed);
  if (const auto& schedule = parts_.options.schedule) {
    fresh_schedule_ = schedule->state();
    if (!watched().empty()) schedule->prefer(plan_.higher_is_better(watched()));
  }
  state_.base_lr = rate_ = parts_.optimizer.lr();
  parts_.net.train();
  each(&Callback::attach);
  check_names(parts_.callbacks);
  if (parts_.link) strategy().prepare(trained_state());
  resuming_ = true;
  const dist::RankProgress::Doing doing(rank_progress(), "start");
  for (const auto& callback : parts_.callbacks) {
    if ((resumed_ = callback->resume(*this))) break;
  }
  resuming_ = false;
  first_step_ = finite_step_ = state_.step;
  parts_.rollbacks.began_at(first_step_);
  expect_checkpoint();
  shown_loss_ = state_.mean_loss();
  rate_ = parts_.optimizer.lr();
  each(&Callback::begin);
  begin_ranks();
  begin_workers();
  // A first checkpoint to go back to, or, after going back, the same one with what was decided.
  if (plan_.rolls_back && (!resumed_ || plan_.rolled_back > 0)) each(&Callback::settled);
}

bool FitRun::finished() const {
  return state_.position.epoch >= parts_.options.epochs ||
         (parts_.options.steps > 0 && state_.step >= parts_.options.steps) || !ended_by_.empty();
}

// Metric that schedules observe; empty: none.
const std::string& FitRun::watched() const {
  static const std::string none;
  if (!parts_.options.watch.empty()) return parts_.options.watch;
  return plan_.metrics.empty() ? none : plan_.metrics.front().name;
}

// Resets schedule and learning rate, so that another fit with the same optimizer starts from its base rate.
void FitRun::rewind() {
  const auto& schedule = parts_.options.schedule;
  if (!schedule || fresh_schedule_.is_null()) return;
  parts_.optimizer.set_lr(state_.base_lr);
  schedule->restore(fresh_schedule_);
}

bool FitRun::stopping() {
  // With several ranks, stop requests are exchanged in notes, so that all leave together.
  if (!parts_.link) interrupted_ = interrupted_ || (parts_.options.stop && parts_.options.stop());
  return interrupted_;
}

void FitRun::stop(std::string reason) {
  std::string& ended = parts_.link ? end_wanted_ : ended_by_;
  if (ended.empty()) ended = reason.empty() ? "a callback" : std::move(reason);
}

std::optional<FitResult> FitRun::run() {
  try {
    auto result = run_with_ranks();
    rewind();
    return result;
  } catch (...) {
    if (parts_.pool) parts_.pool->end();  // rates are those of this run
    rewind();
    throw;
  }
}

// A failing rank aborts the others, which would wait for it in vain.
std::optional<FitResult> FitRun::run_with_ranks() {
  const auto tell = [&](std::string_view why) {
    if (!parts_.link) return;
    if (parts_.options.failed) parts_.options.failed(why);
    parts_.link->abort(why);
  };
  try {
    try {
      return run_all();
    } catch (const NotFiniteError& error) {
      if (!roll_back(error)) throw;
      return std::nullopt;
    }
  } catch (const std::exception& error) {
    tell(error.what());
    throw;
  } catch (...) {
    tell("an exception that is no std::exception");
    throw;
  }
}

double FitRun::clock() const { return parts_.link ? clock_ : steady_seconds(); }

FitResult FitRun::run_all() {
  allocator(kCpu).reset_peak();
  parts_.programs.forget_late_losses();  // of a run that ended by an error
  begin();
  const bool was_finished = first_step_ > 0 && finished() && state_.owed == Owed::nothing;
  finished_before_ = finished();
  pay_owed();
  while (!finished() && !stopping()) run_epoch();
  hear_losses(true);
  const bool moved = parts_.pool ? settle_workers() : settle();
  const bool within_epoch = state_.position.sample != 0;
  if (!interrupted_ && (moved || (within_epoch && state_.evaluated_step != state_.step))) evaluate_now();
  const bool line_open = within_epoch || state_.owed != Owed::nothing;  // a whole epoch has ended its line
  if (line_open) progress_.finish(progress_state(state_.position));
  if (!interrupted_ && !ended_by_.empty()) note("ended by " + ended_by_);
  show_whole();
  each(&Callback::end);
  each(&Callback::finished);
  sum_up_workers();
  FitResult result{
      .summary = summary(), .interrupted = interrupted_, .ended_by = ended_by_, .was_finished = was_finished};
  result.position = state_.position;
  // Of a run that was finished there is nothing new to tell: speeds and waits of this call are those of no step at all.
  const bool keep = was_finished && std::filesystem::exists(plan_.folder / "summary.json");
  result.summary_written = keep;
  if (!plan_.folder.empty() && plan_.rank == 0 && !keep) {
    const auto written = write_summary(plan_.folder, result.summary);
    result.summary_written = written.ok();
    if (!written) note("warning: " + written.error());
  }
  return result;
}

// Runs until the epoch or the run ends, or a stop is requested.
void FitRun::run_epoch() {
  epoch_over_ = false;
  running_epoch_ = state_.position.epoch;
  within_epoch_ = true;
  if (parts_.pool) let_workers_run();
  while (!epoch_over_ && run_step()) {
    after_step();
    if (!epoch_over_ && (finished() || stopping())) return;
  }
  if (!epoch_over_) return;  // a stop was requested while waiting for workers
  within_epoch_ = false;
  const data::DataPosition ended = parts_.pool ? epoch_end() : state_.position;
  state_.position = parts_.pool ? next_position() : feed_.position();
  end_epoch(ended);
}

const Batch* FitRun::next_batch() {
  const auto asked = SteadyClock::now();
  const Batch* batch = feed_.next();
  report_.wait_seconds += seconds_between(asked, SteadyClock::now());
  return batch;
}

// Makes one update from one or more batches; false if the epoch has none left. If the epoch ends within a step, the
// update uses the batches so far.
bool FitRun::run_step() {
  if (parts_.pool) return run_workers_step();
  const auto start = SteadyClock::now();
  report_ = {};
  given_rows_ = 0;
  std::int64_t made = 0;
  for (std::int64_t batches = 0; batches < parts_.options.accumulate; ++batches) {
    const Batch* batch = next_batch();
    if (!batch) {
      epoch_over_ = true;
      if (batches == 0) return false;
      report_.fields = {};  // the loader may be reusing the buffers
      break;
    }
    progress();
    if (batches == 0) begin_step(*batch);
    if (!left_out_) parts_.programs.add(*batch);
    ++made;
    progress();
    report_.samples += parts_.link ? batch->total : batch->size;
    given_rows_ += batch->size;
    report_.fields = {batch->fields.data(), batch->fields.size()};
    state_.position = feed_.position();
  }
  take(left_out_ ? parts_.programs.leave_out(made) : parts_.programs.end());
  report_.seconds = seconds_between(start, SteadyClock::now());
  state_.seconds += report_.seconds;
  state_.wait_seconds += report_.wait_seconds;
  note_.stats.seconds += report_.seconds;
  note_.stats.data_wait += report_.wait_seconds;
  return true;
}

void FitRun::begin_step(const Batch& first) {
  if (first.begin.sample == 0) state_.begin_epoch();
  set_rate();
  StepWants wants;
  for (const auto& callback : parts_.callbacks) {
    const StepWants more = callback->before(*this);
    wants.gradients |= more.gradients;
    wants.activations |= more.activations;
    wants.prediction |= more.prediction;
  }
  left_out_ = parts_.rollbacks.leaves_out(state_.step + 1);
  parts_.programs.begin(wants, state_.step);
}

// Sets the learning rate only if it changes, since compiled steps on several ranks broadcast every change.
void FitRun::set_rate() {
  if (const auto& schedule = parts_.options.schedule) {
    const double factor =
        schedule->factor({.step = state_.step, .steps = plan_.steps, .steps_per_epoch = plan_.steps_per_epoch});
    const double rate = state_.base_lr * factor;
    if (rate != rate_) parts_.optimizer.set_lr(rate);
    rate_ = rate;
  }
  report_.lr = rate_;
}

void FitRun::take(StepPrograms::Result result) {
  explain_once();
  note_.stats.samples += result.rows;
  note_.stats.left_out += given_rows_ - result.rows;
  report_.loss = result.late ? last_loss_ : result.loss;
  report_.gradient_norm = result.gradient_norm;
  report_.skipped = result.skipped;
  report_.values = std::move(result.values);
  // A non-finite loss is reported rather than the gradients that follow from it.
  const bool loss_tells = parts_.options.non_finite != NonFinite::skip && !std::isfinite(result.loss);
  if (!result.non_finite.empty() && loss_tells) report_.skipped = false;
  if (!result.non_finite.empty() && !loss_tells) judge(result.non_finite);
  if (!report_.skipped) skipped_in_a_row_ = 0;
  if (report_.skipped) {
    ++state_.skipped;
    check(parts_.programs.loss_scale() >= kLowestScale,
          "[train] expected gradients that fit into f16 at some loss scale, got overflows down to {} at step {}",
          parts_.programs.loss_scale(), state_.step + 1);
  } else if (result.late) {
    late_steps_.push_back({state_.step + 1, state_.position.epoch, report_.samples});
  } else if (global_loss()) {
    check_loss(result.loss, state_.step + 1, state_.position.epoch, true);
    add_loss(result.loss, result.weight);
  } else {
    const int sharing =
        strategy().global_program() ? plan_.ranks / strategy().groups() : 1;  // number of ranks that report these rows
    note_.weight = result.weight / sharing;
    note_.loss = result.loss * note_.weight;
    note_.not_finite = std::isfinite(result.loss) ? 0 : StepNote::kLoss;
    if (loss_shown_) report_.loss = last_loss_;  // latest known loss over all ranks
  }
  state_.samples += report_.samples;
  ++state_.step;
  if (!report_.skipped && !result.late) learn({state_.step, report_.samples, report_.loss});
}

// Handles non-finite gradients, which were not applied. If all ranks share the update, all of them get here; else the
// others learn of it from this step's note.
void FitRun::judge(const std::string& what) {
  if (parts_.options.non_finite == NonFinite::skip) {
    check(++skipped_in_a_row_ <= kMostSkipped,
          "[train] expected a step with finite gradients now and then, got {} in a row without, last of {} at step {}",
          kMostSkipped, what, state_.step + 1);
    if (std::exchange(told_not_finite_, true)) return;
    note(
        fmt::format("warning: {} not finite at step {}{}; nothing is updated by that step, and later ones are only "
                    "counted (skipped in the summary)",
                    is_or_are(what), state_.step + 1, global_loss() ? bad_input() : ""));
    return;
  }
  if (global_loss()) {
    const std::string data = bad_input();
    throw NotFiniteError(fmt::format("[train] expected finite gradients, got {} that {} not at step {} (epoch {}){}",
                                     what, verb_of(what), state_.step + 1, state_.position.epoch + 1, data),
                         state_.step + 1, state_.step, !data.empty());
  }
  note_.not_finite = StepNote::kGradients;
}

// Tells where the last batch of the step holds an infinity or NaN itself; empty: it does not. All ranks that share a
// loss ask together.
std::string FitRun::bad_input() const {
  const auto found = first_bad_input(report_.fields);
  const std::string here = found ? found->text() : "";
  if (!parts_.link) return here.empty() ? "" : fmt::format(": the batch itself holds one, in {}", here);
  const dist::Verdict verdict = parts_.link->vote_non_finite(here);
  return verdict.finite() ? "" : fmt::format(": the batch itself holds one, on {}", verdict.text());
}

void FitRun::after_step() {
  const bool looked_at = std::any_of(parts_.callbacks.begin(), parts_.callbacks.end(),
                                     [&](const auto& callback) { return callback->looks_at_loss(state_.step); });
  hear_losses(looked_at);
  progress_.update(progress_state(state_.position));
  each(&Callback::step);
  check_state();
  const std::int64_t every = parts_.options.evaluate_every;
  if (every > 0 && state_.step % every == 0 && !evaluate_now()) return;
  agree(false);
  // At the end of an epoch, end_epoch() calls settled instead.
  if (!epoch_over_) each(&Callback::settled);
}

void FitRun::end_epoch(data::DataPosition ended) {
  agree(true);  // losses not yet received belong to this epoch
  hear_losses(true);
  if (state_.evaluated_step != state_.step && !evaluate_now()) {
    state_.owed = Owed::epoch;
    return;
  }
  state_.owed = Owed::nothing;
  progress_.finish(progress_state(ended));
  each(&Callback::epoch);
  agree(true);
  each(&Callback::settled);
}

// Completes the work that an interrupted run left over.
void FitRun::pay_owed() {
  if (state_.owed == Owed::nothing) return;
  if (state_.owed == Owed::epoch) return end_epoch({state_.position.epoch - 1, plan_.samples_per_epoch});
  if (evaluate_now()) each(&Callback::settled);
}

void FitRun::explain_once() {
  if (!parts_.options.explain || explained_) return;
  explained_ = true;
  CompiledFunction& step = program();
  *parts_.options.explain << step.graph() << step.explain() << std::flush;
}

// Samples left if `steps` ends the run before its epochs; -1: derive from the epochs.
std::int64_t FitRun::samples_left(data::DataPosition position) const {
  if (parts_.options.steps == 0) return -1;
  const std::int64_t left =
      std::max<std::int64_t>(0, parts_.options.steps - state_.step) * parts_.options.batch * parts_.options.accumulate;
  if (plan_.samples_per_epoch == 0) return left;
  const std::int64_t of_epochs = (parts_.options.epochs - position.epoch) * plan_.samples_per_epoch - position.sample;
  return std::clamp<std::int64_t>(of_epochs, 0, left);
}

ProgressState FitRun::progress_state(data::DataPosition position) {
  shown_metrics_.clear();
  for (const auto& [name, value] : state_.metrics) shown_metrics_.push_back({name, value});
  return {.epoch = position.epoch,
          .epochs = parts_.options.epochs,
          .sample = position.sample,
          .samples = plan_.samples_per_epoch,
          .step = state_.step,
          .left = samples_left(position),
          .loss = shown_loss_,
          .lr = rate_,
          .metrics = shown_metrics_};
}

// Of weights in pieces rank 0 makes it, of bytes that come to it. Collective then.
std::string FitRun::hash_of(const std::vector<NamedTensor>& weights) const {
  if (shown_ || !parts_.link || strategy().sharded() == nullptr) return weights_hash(weights);
  Checkpoint made{.step = state_.step, .tensors = weights};
  std::string hash;
  parts_.link->lend(
      {}, made,
      [&](const Checkpoint& lent) {
        if (plan_.rank == 0) hash = weights_hash(lent.tensors, lent.fetch);
      },
      strategy().sharded());
  return parts_.link->broadcast(hash);
}

Summary FitRun::summary() const {
  std::vector<NamedTensor> weights;
  for (auto& [name, tensor] : parts_.net.named_parameters()) weights.push_back({name, tensor});
  return {.steps = state_.step,
          .samples_per_s = state_.samples_per_s(),
          .loss = state_.mean_loss(),
          .metrics = state_.metrics,
          .peak_bytes = allocator(kCpu).stats().peak_bytes,
          .weights_hash = hash_of(weights),
          .wait_share = state_.wait_share(),
          .skipped = state_.skipped,
          .rollbacks = parts_.rollbacks.count(),
          .strategy = parts_.link   ? strategy().name()
                      : parts_.pool ? parts_.pool->strategy()
                                    : std::string(),
          .ranks = ranks_summary_,
          .interrupted = interrupted_,
          .started = started_};
}

RunParts FitRun::run_parts() const {
  return {parts_.net, parts_.optimizer, parts_.programs.state(), parts_.callbacks,
          parts_.link ? strategy().sharded() : nullptr};
}

}  // namespace starling::train
