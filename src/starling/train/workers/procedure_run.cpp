#include "starling/train/workers/procedure_run.h"

#include "starling/base/error.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;
using V = ps::CoordinatorVectors;

constexpr auto kSlice = 100ms;  // between two looks at what else there is to do

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
  client_.zero(V::kGradient, rounds_ * pieces_);
  queue_.allow(++rounds_ * pieces_);
  auto step = queue_.take_step(kSlice);
  for (; !step; step = queue_.take_step(kSlice)) options_.waiting();
  check(step->bad_worker < 0 && step->weight > 0,
        "[sandblaster] expected finite losses and gradients of all portions, got others of worker {} in evaluation {}",
        step->bad_worker, rounds_);
  sum_ = *step;
  client_.scale(V::kGradient, 1 / sum_.weight);
  return sum_.loss / sum_.weight;
}

ProcedureRun::Iteration ProcedureRun::iterate() {
  const std::int64_t before = rounds_;
  const ps::Counters told = client_.counters();
  const bool moved = coordinator_.iterate();
  ++iterations_;
  requests_ += ps::counter(client_.counters(), "requests") - ps::counter(told, "requests");
  bytes_ += bytes_of(client_.counters()) - bytes_of(told);
  return {.sum = sum_, .evaluations = rounds_ - before, .moved = moved};
}

ps::Counters ProcedureRun::counters() const {
  return {{"procedure.iterations", static_cast<double>(iterations_)},
          {"procedure.evaluations", static_cast<double>(rounds_)},
          {"procedure.pairs_refused", static_cast<double>(coordinator_.pairs_refused())},
          {"procedure.requests", requests_},
          {"procedure.bytes", bytes_}};
}

}  // namespace starling::train
