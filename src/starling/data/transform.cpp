#include "starling/data/transform.h"

#include <cmath>

#include "starling/base/error.h"

namespace starling::data {
void register_transforms(TransformKinds& into);  // generated
}

namespace starling {
namespace {

constexpr std::uint64_t kSite = 0x7472616e73666f72;  // "transfor": its own random stream of the run's seed
constexpr std::uint64_t kDrawsOfASample = std::uint64_t{1} << 20;

}  // namespace

const TransformKinds& transform_kinds() {
  static const TransformKinds kinds = [] {
    TransformKinds made;
    data::register_transforms(made);
    return made;
  }();
  return kinds;
}

std::vector<Chosen<TransformStep>> read_transforms(const ConfigNode& list) {
  std::vector<Chosen<TransformStep>> steps;
  for (const auto& item : list.as_list()) {
    if (item.is_scalar()) {
      const std::string name = item.as_string();
      steps.push_back(transform_kinds().choose_named(name, item, ConfigNode::parse("{}", "defaults")));
    } else {
      steps.push_back(transform_kinds().choose(item));
    }
  }
  return steps;
}

Draws::Draws(const SampleKey& key)
    : stream_({.seed = key.seed, .step = static_cast<std::uint64_t>(key.epoch), .site = kSite + key.stage}),
      next_(static_cast<std::uint64_t>(key.sample) * kDrawsOfASample) {}

double Draws::uniform() { return philox_uniform(stream_, next_++); }

double Draws::uniform(double low, double high) { return low + (high - low) * uniform(); }

std::int64_t Draws::below(std::int64_t bound) {
  check(bound >= 1, "[transform] expected a bound of at least 1, got {}", bound);
  const std::uint64_t high = philox_bits(stream_, next_++);
  const std::uint64_t wide = high << 32 | philox_bits(stream_, next_++);
  __extension__ using Wide = unsigned __int128;  // multiply and shift: bias below 2^-40 for any image size
  return static_cast<std::int64_t>(static_cast<std::uint64_t>((Wide{wide} * static_cast<std::uint64_t>(bound)) >> 64));
}

double Draws::normal() {
  next_ += next_ & 1;  // Box-Muller uses an aligned pair of numbers; only the first result is used
  const double value = philox_normal(stream_, next_);
  next_ += 2;
  return value;
}

// Marsaglia and Tsang 2000; shapes below 1 are drawn one higher and scaled.
double Draws::gamma(double shape) {
  if (shape < 1) return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double Draws::beta(double a, double b) {
  check(a > 0 && b > 0, "[transform] expected shapes of the beta distribution above 0, got {} and {}", a, b);
  const double x = gamma(a), y = gamma(b);
  return x + y > 0 ? x / (x + y) : 0.5;
}

}  // namespace starling
