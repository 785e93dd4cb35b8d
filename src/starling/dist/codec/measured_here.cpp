#include "starling/dist/codec/measured_here.h"

#include <algorithm>
#include <limits>

#include "starling/base/clock.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"

namespace starling::dist {
namespace {

// Time of an operation of a product, best of a few.
double flop_seconds() {
  constexpr std::int64_t kSize = 256;
  constexpr int kTimes = 5;
  const NoGrad no_grad;
  const Tensor a = full({kSize, kSize}, 0.5), b = full({kSize, kSize}, 0.25);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = SteadyClock::now();
    static_cast<void>(matmul(a, b));
    best = std::min(best, seconds_since(begin));
  }
  return best / (2.0 * kSize * kSize * kSize);
}

// Time of coding a value once and of decoding it twice, as in an exchange of two stages; best of a few.
double coding_seconds(const char* name) {
  constexpr std::int64_t kLines = 256, kWidth = 256, kValues = kLines * kWidth;
  constexpr int kTimes = 5;
  const CodecPtr codec = codec_kinds().by_name(name).make();
  const PushCoder& coder = *codec->push_coder();
  const CodedShape shape{kLines, kWidth};
  std::vector<float> x(kValues, 0.5F), kept(kValues, 0.0F), y(kValues);
  std::vector<std::uint32_t> wire(coder.most_bytes(shape) / sizeof(std::uint32_t) + 1);
  float* states[] = {kept.data()};
  auto* bytes = reinterpret_cast<std::byte*>(wire.data());
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = SteadyClock::now();
    const std::size_t size = coder.encode({.shape = shape, .x = x.data(), .states = states}, bytes);
    for (int times = 0; times < 2; ++times) static_cast<void>(coder.decode(shape, {bytes, size}, y));
    best = std::min(best, seconds_since(begin));
  }
  return best / static_cast<double>(kValues);
}

}  // namespace

ComputeCosts measured_here() { return {flop_seconds(), coding_seconds("bf16"), coding_seconds("one_bit")}; }

}  // namespace starling::dist
