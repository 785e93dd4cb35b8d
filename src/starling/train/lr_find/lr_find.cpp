#include "starling/train/lr_find/lr_find.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/train/job/job_trainer.h"
#include "starling/train/runs/text_table.h"

namespace starling::train {
namespace {

constexpr double kMemory = 0.8;      // weight of the past in the average that shows an explosion
constexpr double kExplosion = 3;     // times the fall so far: a loss that far above its lowest will not come back
constexpr double kLeastFall = 0.05;  // of the first losses: less may be noise between batches
constexpr std::size_t kSlope = 5;    // points on either side that a slope is taken over
constexpr std::size_t kRows = 12;    // of the table

// The rate itself, for an optimizer whose own rate is 1.
class Ramp final : public optim::Schedule {
 public:
  explicit Ramp(const LrFindOptions& options) : options_(options) {}
  double factor(const optim::ScheduleMoment& moment) const override {
    const double part =
        static_cast<double>(moment.step) / static_cast<double>(std::max<std::int64_t>(1, options_.steps - 1));
    return options_.min * std::pow(options_.max / options_.min, part);
  }

 private:
  LrFindOptions options_;
};

TrainerOptions trainer_options(const PreparedJob& prepared, const LrFindOptions& options) {
  TrainerOptions made = step_options(prepared);
  made.epochs = std::numeric_limits<std::int32_t>::max();  // small data is gone through as often as needed
  made.steps = options.steps;
  made.finite_every = 0;
  made.non_finite = NonFinite::skip;  // an explosion ends the ramp, and is no error
  made.schedule = std::make_shared<Ramp>(options);
  made.progress.mode = ProgressMode::off;
  return made;
}

// Watches the steps of the ramp for an explosion.
class Watch {
 public:
  explicit Watch(LrFound& found) : found_(found) {}

  void step(Run& run) {
    const StepReport& last = run.last();
    if (last.skipped || !std::isfinite(last.loss)) {
      found_.diverged = true;
      return;
    }
    found_.points.push_back({last.lr, last.loss, last.loss});
    sum_ = kMemory * sum_ + (1 - kMemory) * last.loss;
    weight_ = kMemory * weight_ + (1 - kMemory);
    const double average = sum_ / weight_, first = found_.points.front().loss;
    lowest_ = std::min(lowest_, average);
    const double room = std::max({kExplosion * (first - lowest_), 0.5 * std::abs(first), std::abs(lowest_)});
    found_.diverged = average > lowest_ + room;
  }

 private:
  LrFound& found_;
  double sum_ = 0;
  double weight_ = 0;
  double lowest_ = INFINITY;
};

// Mean of the losses around each: unlike an average of the past, it does not lag behind the rate.
void smooth(std::vector<LrPoint>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t reach = std::min({kSlope, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t k = i - reach; k <= i + reach; ++k) sum += points[k].loss;
    points[i].smoothed = sum / static_cast<double>(2 * reach + 1);
  }
}

// Losses above are drawn there: an explosion would leave no room for the fall before it.
double highest_drawn(const std::vector<LrPoint>& points) {
  double lowest = points.front().smoothed;
  for (const auto& point : points) lowest = std::min(lowest, point.smoothed);
  const double first = points.front().smoothed;
  return first + 0.5 * std::max(first - lowest, 0.1 * std::abs(first));
}

}  // namespace

std::optional<double> suggest_lr(const std::vector<LrPoint>& points) {
  if (points.size() < 2 * kSlope + 1) return std::nullopt;
  const auto lowest = std::min_element(points.begin(), points.end(),
                                       [](const LrPoint& a, const LrPoint& b) { return a.smoothed < b.smoothed; });
  double first = 0;  // mean of some: a single batch may be easier or harder than others
  for (std::size_t i = 0; i < 2 * kSlope; ++i) first += points[i].loss / (2 * kSlope);
  if (first - lowest->smoothed < kLeastFall * std::max(std::abs(first), 1e-12)) return std::nullopt;
  const auto last = std::min(static_cast<std::size_t>(lowest - points.begin()), points.size() - 1 - kSlope);
  std::optional<double> best;
  double steepest = 0;
  for (std::size_t i = kSlope; i <= last; ++i) {
    const LrPoint &before = points[i - kSlope], &after = points[i + kSlope];
    const double slope = (after.smoothed - before.smoothed) / std::log(after.lr / before.lr);
    if (slope >= steepest) continue;
    steepest = slope;
    best = points[i].lr;
  }
  return best;
}

LrFound find_lr(const PreparedJob& prepared, const LrFindOptions& options) {
  check(options.min > 0 && options.max > options.min,
        "[lr-find] expected rates from above 0 to a larger one, got {} to {}", options.min, options.max);
  const auto optimizer = make_optimizer(prepared.job, *prepared.net);
  optimizer->set_lr(1);
  LrFound found;
  TrainerOptions how = trainer_options(prepared, options);
  how.stop = [&] { return found.diverged || (options.stop && options.stop()); };
  Trainer trainer(*prepared.net, *optimizer, prepared.objective, std::move(how));
  Watch watch(found);
  trainer.add(after_step([&](Run& run) { watch.step(run); }));
  data::DataSplits only_train;  // nothing to evaluate on
  only_train.train = prepared.data.splits.train;
  only_train.train_shards = prepared.data.splits.train_shards;
  found.interrupted = trainer.fit(only_train).interrupted && !found.diverged;
  smooth(found.points);
  found.suggested = suggest_lr(found.points);
  return found;
}

std::string lr_table(const LrFound& found) {
  TextTable table{.head = {"learning rate", "loss", "smoothed"}, .right = {true, true, true}};
  const std::size_t count = found.points.size(), rows = std::min(kRows, count);
  for (std::size_t row = 0; row < rows; ++row) {
    const LrPoint& point = found.points[rows == 1 ? 0 : row * (count - 1) / (rows - 1)];
    table.rows.push_back(
        {fmt::format("{:.3g}", point.lr), fmt::format("{:.4g}", point.loss), fmt::format("{:.4g}", point.smoothed)});
  }
  return to_text(table);
}

Figure lr_figure(const LrFound& found) {
  check(!found.points.empty(), "[lr-find] expected steps with a finite loss to draw, got none");
  const double top = highest_drawn(found.points);
  Curve curve;
  for (const auto& point : found.points) {
    curve.x.push_back(point.lr);
    curve.y.push_back(std::min(point.smoothed, top));
    curve.raw.push_back(std::min(point.loss, top));
  }
  Figure figure{.title = found.suggested ? fmt::format("suggested learning rate: {:.2g}", *found.suggested)
                                         : "no rate made the loss fall",
                .x_label = "learning rate",
                .log_x = true,
                .runs = {"loss"}};
  figure.panels.push_back({.metric = "loss", .curves = {std::move(curve)}});
  return figure;
}

}  // namespace starling::train
