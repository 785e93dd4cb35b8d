#include "starling/train/workers/procedure_run.h"

#include <limits>

#include "starling/base/error.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;
using V = ps::CoordinatorVectors;

constexpr auto kSlice = 100ms;  // between two looks at what else there is to do

struct Left {};  // thrown out of an iteration that is left

double bytes_of(const ps::Counters& told) { return ps::counter(told, "bytes_in") + ps::counter(told, "bytes_out"); }

}  // namespace

ProcedureRun::ProcedureRun(ps::Client& client, PortionQueue& queue, const data::PortionGrid& grid, Options options)
    : client_(client),
      queue_(queue),
      pieces_(grid.pieces()),
      options_(std::move(options)),
      coordinator_(
          client, [this] { return evaluate(); }, options_.procedure) {}

// Portions of this round are handed out once the servers refuse those of the last one, whose gradients are of other
// weights.
double ProcedureRun::evaluate() {
  leave_if_asked();
  client_.zero(V::kGradient, rounds_ * pieces_);
  queue_.allow(++rounds_ * pieces_);
  auto step = queue_.take_step(kSlice);
  for (; !step; step = queue_.take_step(kSlice)) {
    options_.waiting();
    leave_if_asked();
  }
  finite_ = step->bad_worker < 0 && step->weight > 0;
  if (!finite_) return refuse(*step);
  sum_ = *step;
  client_.scale(V::kGradient, 1 / sum_.weight);
  return sum_.loss / sum_.weight;
}

// A trial point that overflows is one too far, which the search does not take. Portions without an update are missing
// in its gradient, which the zero of the next round forgets.
double ProcedureRun::refuse(const PortionStep& step) {
  check(rounds_ > 1,
        "[sandblaster] expected finite losses and gradients of all portions, got others of worker {} in evaluation {}",
        step.bad_worker, rounds_);
  ++points_refused_;
  return std::numeric_limits<double>::infinity();
}

void ProcedureRun::leave_if_asked() const {
  if (leave_ && leave_()) throw Left{};
}

std::optional<ProcedureRun::Iteration> ProcedureRun::iterate(const std::function<bool()>& leave) {
  check(!left_, "[sandblaster] expected no iteration after one that was left, got one");
  leave_ = leave;
  const std::int64_t before = rounds_;
  const ps::Counters told = client_.counters();
  bool moved = false;
  try {
    moved = coordinator_.iterate();
  } catch (const Left&) {
    left_ = true;
    queue_.allow(0);  // portions that are not handed out yet are not wanted any more
    coordinator_.go_back();
    return std::nullopt;
  }
  check(finite_, "[sandblaster] expected finite losses and gradients where iteration {} ends, got others",
        iterations_ + 1);
  ++iterations_;
  requests_ += ps::counter(client_.counters(), "requests") - ps::counter(told, "requests");
  bytes_ += bytes_of(client_.counters()) - bytes_of(told);
  return Iteration{.sum = sum_, .evaluations = rounds_ - before, .moved = moved};
}

ps::Counters ProcedureRun::counters() const {
  return {{"procedure.iterations", static_cast<double>(iterations_)},
          {"procedure.evaluations", static_cast<double>(rounds_)},
          {"procedure.points_refused", static_cast<double>(points_refused_)},
          {"procedure.pairs_refused", static_cast<double>(coordinator_.pairs_refused())},
          {"procedure.requests", requests_},
          {"procedure.bytes", bytes_}};
}

}  // namespace starling::train
