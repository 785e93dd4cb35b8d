#include <algorithm>

#include "starling/kernels/cpu/conv/conv_winograd.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kLeastChannels = 32;
constexpr std::int64_t kMostWeights = 1024 * 1024;  // all their planes are scratch
constexpr std::int64_t kTilesPerThread = 16;

// Cost of a transform in multiply-adds: about twelve per element of the data's planes, about forty per element of the
// weights', which come from memory.
constexpr double kMoveCost = 12, kWeightCost = 40;

double cost(const Conv2dShape& s, WinogradScheme scheme) {
  const WinogradSizes sizes = winograd_sizes(scheme);
  const auto in = static_cast<double>(s.in_channels), out = static_cast<double>(s.out_channels);
  const auto tiles = static_cast<double>(s.batch * sizes.tiles(s.out_h()) * sizes.tiles(s.out_w()));
  const auto planes = static_cast<double>(sizes.planes());
  return planes * (tiles * (in * out + kMoveCost * (in + out)) + kWeightCost * in * out);
}

double plain_cost(const Conv2dShape& s) {
  return static_cast<double>(s.batch * s.positions()) * static_cast<double>(s.taps() * s.out_channels);
}

bool fits(const Conv2dShape& s) {
  const bool square = s.kernel_h == s.kernel_w && (s.kernel_h == 3 || s.kernel_h == 5);
  return square && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 && s.dilation_w == 1 && s.groups == 1 &&
         s.pad_h < s.kernel_h && s.pad_w < s.kernel_w;
}

}  // namespace

std::optional<WinogradScheme> winograd_scheme(const Conv2dShape& s, int threads) {
  if (!fits(s) || std::min(s.in_channels, s.out_channels) < kLeastChannels ||
      s.in_channels * s.out_channels > kMostWeights)
    return {};
  std::optional<WinogradScheme> best;
  double least = plain_cost(s) * 0.9;
  for (const auto scheme : {WinogradScheme::k2x3, WinogradScheme::k4x3, WinogradScheme::k2x5}) {
    const WinogradSizes sizes = winograd_sizes(scheme);
    const std::int64_t tiles = s.batch * sizes.tiles(s.out_h()) * sizes.tiles(s.out_w());
    if (sizes.kernel != s.kernel_h || tiles < kTilesPerThread * threads || cost(s, scheme) >= least) continue;
    best = scheme;
    least = cost(s, scheme);
  }
  return best;
}

}  // namespace starling::kernels
