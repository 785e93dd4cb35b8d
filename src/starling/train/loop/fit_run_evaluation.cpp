// Evaluations of a run: of one rank by itself, and of ranks that share the samples or show their weights for it.
#include <utility>

#include "starling/train/loop/fit_run.h"

namespace starling::train {

// False if a stop was requested meanwhile: the evaluation is then made when the run resumes.
bool FitRun::evaluate_now() {
  hear_losses(true);
  if (parts_.link && !test_.empty() && strategy().settles_to_evaluate()) strategy().settle();
  if (!test_.empty()) fetch_weights();
  const double since = progress_.now();
  auto found = evaluate_unless_stopped();
  state_.owed = found ? Owed::nothing : Owed::evaluation;
  if (!found) return false;
  state_.evaluated_step = state_.step;
  evaluation_ = std::move(*found);
  state_.metrics = evaluation_.metrics;
  if (evaluation_.samples > 0) {
    each(&Callback::evaluated);
    const auto metric = state_.metrics.find(watched());
    if (parts_.options.schedule && metric != state_.metrics.end()) observe(metric->second);
  }
  progress_.leave_out(progress_.now() - since);
  return true;
}

// Workers' rates are computed while they ask for portions.
void FitRun::observe(double metric) {
  if (!parts_.pool) return parts_.options.schedule->observe(metric);
  parts_.pool->locked([&] { parts_.options.schedule->observe(metric); });
}

// With several ranks, all leave an evaluation after the same batch.
std::optional<Evaluation> FitRun::evaluate_unless_stopped() {
  if (test_.empty()) return evaluate();
  if (!parts_.link) return parts_.evaluator.evaluate_unless([this] { return stopping(); }, test_, plan_.class_names);
  auto found = evaluate_on_ranks(parts_.options.stop);
  interrupted_ = interrupted_ || !found;
  return found;
}

Evaluation FitRun::evaluate() {
  if (test_.empty()) return {};
  if (!parts_.link) return parts_.evaluator.evaluate(test_, plan_.class_names);
  return *evaluate_on_ranks({});
}

std::optional<Evaluation> FitRun::evaluate_on_ranks(const std::function<bool()>& stop) {
  const dist::RankProgress::Doing doing(rank_progress(), "evaluation");
  if (shown_ || !strategy().shows_to_evaluate() || parts_.evaluator.judges_pieces(test_, *parts_.link))
    return evaluate_here(stop, shown_ || strategy().settled() || strategy().settles_to_evaluate());  // has just settled
  try {
    strategy().show();
    auto made = evaluate_here(stop, true);
    strategy().unshow();
    return made;
  } catch (...) {
    // Pieces need no other rank to hide them; elsewhere this one is not to wait for ranks that may not come.
    if (strategy().sharded() != nullptr) strategy().unshow();
    throw;
  }
}

// `equal`: all ranks evaluate the same weights.
std::optional<Evaluation> FitRun::evaluate_here(const std::function<bool()>& stop, bool equal) {
  // Each rank has its own batch statistics; rank 0's are the model's.
  if (equal) parts_.link->broadcast(trained_state().buffers);
  return parts_.evaluator.evaluate_unless(stop, test_, plan_.class_names, *parts_.link, equal);
}

void FitRun::report(const std::string& name, double value) { evaluation_.metrics[name] = state_.metrics[name] = value; }

}  // namespace starling::train
