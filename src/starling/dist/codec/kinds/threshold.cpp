#include <bit>
#include <cmath>
#include <limits>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/routes/gathered.h"

// Threshold coding (Strom 2015, DL4J): r += g; ±τ is sent where |r| > τ, and taken from r. A word holds the index of a
// value and, in its lowest bit, its sign; the first word is τ, or NaN where this rank's gradient is not finite.
namespace starling::dist {
namespace {

struct ThresholdOptions {
  double threshold = 1e-3;
  static Settings settings() {
    return {setting("threshold", &ThresholdOptions::threshold, "what is sent of a value once it has grown beyond",
                    {.min = 1e-12, .max = 1e6})};
  }
};

class Threshold final : public GatheredCodec {
 public:
  explicit Threshold(const ThresholdOptions& options) : threshold_(static_cast<float>(options.threshold)) {}

  std::vector<CodecState> states(const Shape& shape) const override {
    expect_countable(shape.numel());
    return {{.name = "residual", .shape = shape}};
  }

 protected:
  std::int64_t most_words(std::int64_t values) const override { return 1 + values; }

  std::int64_t choose(const CodedTensor& tensor, int /*ranks*/, float* /*work*/, std::uint32_t* words) const override {
    float* kept = tensor.states[0];
    float unit = threshold_;
    std::uint32_t* next = words + 1;
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i) {
      kept[i] += tensor.x[i];
      if (std::abs(kept[i]) <= threshold_) continue;  // false for NaN
      const bool positive = kept[i] > 0;
      *next++ = static_cast<std::uint32_t>(i) << 1 | (positive ? 1U : 0U);
      if (std::isfinite(kept[i]))
        kept[i] -= positive ? threshold_ : -threshold_;
      else
        unit = std::numeric_limits<float>::quiet_NaN();
    }
    words[0] = std::bit_cast<std::uint32_t>(unit);
    return next - words;
  }

  bool add(std::span<const std::uint32_t> words, std::span<float> y) const override {
    if (words.empty()) return false;
    const auto unit = std::bit_cast<float>(words[0]);
    for (const std::uint32_t word : words.subspan(1)) {
      if (word >> 1 >= y.size()) return false;
      y[word >> 1] += (word & 1U) != 0 ? unit : -unit;
    }
    return true;
  }

  void release(const CodedTensor& tensor) const override {
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i) {
      tensor.y[i] = tensor.x[i] + tensor.states[0][i];
      tensor.states[0][i] = 0;
    }
  }

 private:
  float threshold_;
};

}  // namespace

void register_codec_threshold(CodecKinds& kinds) {
  kinds.add<ThresholdOptions>(
      "threshold", "values that have grown beyond a threshold send it, with their sign, and keep the rest",
      [](const ThresholdOptions& options) -> CodecPtr { return std::make_shared<Threshold>(options); });
}

}  // namespace starling::dist
