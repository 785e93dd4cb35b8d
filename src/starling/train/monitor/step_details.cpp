#include "starling/train/monitor/step_details.h"

#include <algorithm>

#include "starling/base/file/glob.h"
#include "starling/train/monitor/histogram.h"

namespace starling::train {
namespace {

bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_matches(pattern, name); });
}

}  // namespace

StepDetails::StepDetails(const nn::Module& net) {
  for (auto& [name, tensor] : net.named_parameters()) {
    if (tensor.impl()->storage) parameters_.push_back({name, tensor, copied(tensor)});  // else every rank has a piece
  }
}

std::vector<Result<void>> StepDetails::write(EventWriter& events, std::int64_t step, const StepValues& values,
                                             const std::vector<std::string>& modules) const {
  std::vector<Result<void>> results;
  std::vector<Scalar> scalars;
  const auto draw = [&](const std::string& tag, const Tensor& tensor) {
    const Histogram histogram = histogram_of(tensor);
    results.push_back(events.histogram(step, tag, histogram));
    if (histogram.not_finite > 0) scalars.push_back({"not_finite/" + tag, static_cast<double>(histogram.not_finite)});
  };
  for (const auto& [name, now, then] : parameters_) {
    draw("weights/" + name, now);
    const double size = is_float(then.dtype()) ? norm(then) : 0;
    if (size > 0) scalars.push_back({"update_ratio/" + name, distance(now, then) / size});
  }
  for (const auto& [name, gradient] : values.gradients) draw("gradients/" + name, gradient);
  for (const auto& [name, activation] : values.activations) {
    if (matches(name, modules)) draw("activations/" + name, activation);
  }
  if (!scalars.empty()) results.push_back(events.scalars(step, scalars));
  return results;
}

}  // namespace starling::train
