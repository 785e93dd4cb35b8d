#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/routes/gathered.h"

// Deep Gradient Compression (Lin et al. 2018): u = m·u + g; v += u; the k largest |v| of a tensor are sent, and u and v
// are 0 where they were. A value on the wire is two words, its index and itself.
namespace starling::dist {
namespace {

struct TopKOptions {
  double share = 0.01;
  double momentum = 0;
  double clip = 0;
  std::int64_t warmup = 0;
  static Settings settings() {
    using O = TopKOptions;
    return {setting("share", &O::share, "share of the values that is sent, at least one", {.min = 1e-6, .max = 1}),
            setting("momentum", &O::momentum,
                    "momentum correction: each worker's own, in place of the optimizer's, which must have none",
                    {.min = 0, .max = 0.9999}),
            setting("clip", &O::clip,
                    "largest norm of a tensor's gradient; a worker clips its own to this / √workers. "
                    "0: any",
                    {.min = 0}),
            setting("warmup", &O::warmup, "steps over which the share falls from all values to `share`, exponentially",
                    {.min = 0, .max = 1e9})};
  }
};

// Magnitude for the choice: what is not finite comes first.
float rank_of(float value) {
  const float size = std::abs(value);
  return std::isfinite(size) ? size : std::numeric_limits<float>::infinity();
}

class TopK final : public GatheredCodec {
 public:
  explicit TopK(const TopKOptions& options) : options_(options) {}

  std::vector<CodecState> states(const Shape& shape) const override {
    expect_countable(shape.numel());
    return {{.name = "unsent", .shape = shape},
            {.name = "velocity", .shape = options_.momentum > 0 ? shape : Shape{0}},
            {.name = "steps", .shape = options_.warmup > 0 ? Shape{1} : Shape{0}, .shared = true}};
  }

 protected:
  std::int64_t most_words(std::int64_t values) const override {
    return 2 * (options_.warmup > 0 ? values : count(values, options_.share));
  }

  std::int64_t work_values(std::int64_t values) const override { return values; }

  std::int64_t choose(const CodedTensor& tensor, int ranks, float* work, std::uint32_t* words) const override {
    const std::int64_t n = tensor.shape.values();
    if (n == 0) return 0;
    accumulate(tensor, ranks);
    const std::int64_t k = count(n, share_now(tensor));
    std::transform(tensor.states[0], tensor.states[0] + n, work, rank_of);
    std::nth_element(work, work + (k - 1), work + n, std::greater<>());
    return 2 * take(tensor, work[k - 1], k, words);
  }

  bool add(std::span<const std::uint32_t> words, std::span<float> y) const override {
    if (words.size() % 2 != 0) return false;
    for (std::size_t i = 0; i < words.size(); i += 2) {
      if (words[i] >= y.size()) return false;
      y[words[i]] += std::bit_cast<float>(words[i + 1]);
    }
    return true;
  }

  void release(const CodedTensor& tensor) const override {
    accumulate(tensor, 1);
    const auto n = static_cast<std::size_t>(tensor.shape.values());
    std::copy_n(tensor.states[0], n, tensor.y);
    std::fill_n(tensor.states[0], n, 0.0F);
    if (options_.momentum > 0) std::fill_n(tensor.states[1], n, 0.0F);
    if (options_.warmup > 0) ++tensor.states[2][0];
  }

 private:
  static std::int64_t count(std::int64_t values, double share) {
    return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(values)),
                                    std::min<std::int64_t>(values, 1), values);
  }

  double share_now(const CodedTensor& tensor) const {
    if (options_.warmup == 0) return options_.share;
    const double done = static_cast<double>(++tensor.states[2][0]) / static_cast<double>(options_.warmup);
    return std::pow(options_.share, std::min(1.0, done));
  }

  // Factor of a rank's gradient: its norm is at most clip / √ranks, as the norm of independent terms grows as √ranks.
  float clip_factor(const CodedTensor& tensor, int ranks) const {
    if (options_.clip == 0) return 1;
    double squares = 0;
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i) squares += std::pow(static_cast<double>(tensor.x[i]), 2);
    const double most = options_.clip / std::sqrt(static_cast<double>(ranks));
    return squares > most * most ? static_cast<float>(most / std::sqrt(squares)) : 1;
  }

  void accumulate(const CodedTensor& tensor, int ranks) const {
    const float factor = clip_factor(tensor, ranks), m = static_cast<float>(options_.momentum);
    float *unsent = tensor.states[0], *velocity = tensor.states[1];
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i) {
      const float g = factor == 1 ? tensor.x[i] : factor * tensor.x[i];
      if (m > 0) velocity[i] = m * velocity[i] + g;
      unsent[i] += m > 0 ? velocity[i] : g;
    }
  }

  // Sends what is above the smallest size sent, and of that size the first few, k in all.
  std::int64_t take(const CodedTensor& tensor, float smallest, std::int64_t k, std::uint32_t* words) const {
    float* unsent = tensor.states[0];
    std::int64_t above = 0, sent = 0;
    const std::int64_t n = tensor.shape.values();
    for (std::int64_t i = 0; i < n; ++i) above += rank_of(unsent[i]) > smallest ? 1 : 0;
    std::int64_t equal = k - above;
    for (std::int64_t i = 0; i < n && sent < k; ++i) {
      const float size = rank_of(unsent[i]);
      if (size < smallest || (size == smallest && equal-- <= 0)) continue;
      words[2 * sent] = static_cast<std::uint32_t>(i);
      words[2 * sent + 1] = std::bit_cast<std::uint32_t>(unsent[i]);
      unsent[i] = 0;
      if (options_.momentum > 0) tensor.states[1][i] = 0;
      ++sent;
    }
    return sent;
  }

  TopKOptions options_;
};

}  // namespace

void register_codec_top_k(CodecKinds& kinds) {
  kinds.add<TopKOptions>("top_k", "Deep Gradient Compression: the largest values of a tensor; the others wait and grow",
                         [](const TopKOptions& options) -> CodecPtr { return std::make_shared<TopK>(options); });
}

}  // namespace starling::dist
