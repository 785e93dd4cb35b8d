#include <algorithm>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/low_rank.h"

// PowerSGD (Vogels et al. 2019): M = g + e; P = mean(M·Q), orthonormalised; Q = mean(Mᵀ·P); ĝ = P·Qᵀ; e = M - ĝ. The Q
// of one step begins the next. Tensors that would not shrink, such as biases, are reduced as they are.
namespace starling::dist {
namespace {

struct PowerSgdOptions {
  std::int64_t rank = 2;
  static Settings settings() {
    return {setting("rank", &PowerSgdOptions::rank, "of the product that a gradient is approximated by",
                    {.min = 1, .max = 4096})};
  }
};

class PowerSgd final : public Codec {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : rank_(options.rank) {}

  std::vector<CodecState> states(const Shape& shape) const override {
    const CodedShape matrix = coded_shape(shape);
    const std::int64_t r = rank_of(matrix);
    return {{.name = "residual", .shape = r > 0 ? shape : Shape{0}},
            {.name = "q", .shape = Shape{r, matrix.width}, .shared = true, .begin = random_directions}};
  }

  std::size_t scratch_bytes(std::span<const CodedShape> shapes, int /*rank*/, int /*ranks*/) const override {
    std::int64_t first = 0, second = 0;
    for (const CodedShape& shape : shapes) {
      const std::int64_t r = rank_of(shape);
      first += r * shape.lines;
      second += r > 0 ? r * shape.width : shape.values();
    }
    return static_cast<std::size_t>(first + second) * sizeof(float);
  }

  void reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
              std::string_view name) const override {
    if (comm.size() == 1) return release(tensors);
    for (const CodedTensor& tensor : tensors) {
      if (tensor.coded != nullptr) *tensor.coded = static_cast<double>(sizeof(float) * sent_values(tensor.shape));
    }
    auto* left = reinterpret_cast<float*>(scratch);
    float* right = project(tensors, left);
    sum(comm, left, right, name);
    float* end = project_back(tensors, left, right);
    sum(comm, right, end, name);
    rebuild(tensors, comm.size(), left, right);
  }

 private:
  // Rank of the product for a matrix; 0: it travels as it is, since the factors would be no smaller.
  std::int64_t rank_of(const CodedShape& shape) const {
    const std::int64_t r = std::min({rank_, shape.lines, shape.width});
    const bool whole = rank_ >= std::min(shape.lines, shape.width);  // asked for: a study of the exact case
    return shape.lines > 1 && (whole || r * (shape.lines + shape.width) < shape.values()) ? r : 0;
  }

  std::size_t sent_values(const CodedShape& shape) const {
    const std::int64_t r = rank_of(shape);
    return static_cast<std::size_t>(r > 0 ? r * (shape.lines + shape.width) : shape.values());
  }

  static void sum(Comm& comm, float* begin, const float* end, std::string_view name) {
    comm.all_reduce(begin, begin, end - begin, DType::f32, ReduceOp::sum, {.name = name}).wait();
  }

  // M = g + e, kept in e; left = M·Q. Returns the end of what was written.
  float* project(std::span<const CodedTensor> tensors, float* left) const {
    for (const CodedTensor& tensor : tensors) {
      const std::int64_t r = rank_of(tensor.shape);
      if (r == 0) continue;
      for (std::int64_t i = 0; i < tensor.shape.values(); ++i) tensor.states[0][i] += tensor.x[i];
      times_rows(tensor.shape, r, tensor.states[0], tensor.states[1], left);
      left += r * tensor.shape.lines;
    }
    return left;
  }

  // right = Mᵀ·P of the orthonormal P, or the tensor itself where it travels as it is.
  float* project_back(std::span<const CodedTensor> tensors, float* left, float* right) const {
    for (const CodedTensor& tensor : tensors) {
      const std::int64_t r = rank_of(tensor.shape);
      if (r == 0) {
        right = std::copy_n(tensor.x, tensor.shape.values(), right);
        continue;
      }
      orthonormalise(r, tensor.shape.lines, left);
      times_columns(tensor.shape, r, tensor.states[0], left, right);
      left += r * tensor.shape.lines;
      right += r * tensor.shape.width;
    }
    return right;
  }

  // y = P·Qᵀ of the sums; each rank keeps M less its share of it. Q is the mean, so that its size does not grow.
  void rebuild(std::span<const CodedTensor> tensors, int ranks, const float* left, const float* right) const {
    const float share = 1.0F / static_cast<float>(ranks);
    for (const CodedTensor& tensor : tensors) {
      const std::int64_t r = rank_of(tensor.shape), n = tensor.shape.values();
      if (r == 0) {
        std::copy_n(right, n, tensor.y);
        right += n;
        continue;
      }
      product(tensor.shape, r, left, right, tensor.y);
      for (std::int64_t i = 0; i < n; ++i) tensor.states[0][i] -= share * tensor.y[i];
      for (std::int64_t k = 0; k < r; ++k) keep_direction(right + k * tensor.shape.width, share, tensor, k);
      left += r * tensor.shape.lines;
      right += r * tensor.shape.width;
    }
  }

  // A direction in which the gradient had nothing stays, or nothing would ever be looked for in it again.
  static void keep_direction(const float* found, float share, const CodedTensor& tensor, std::int64_t k) {
    const std::int64_t width = tensor.shape.width;
    if (std::all_of(found, found + width, [](float value) { return value == 0; })) return;
    for (std::int64_t i = 0; i < width; ++i) tensor.states[1][k * width + i] = share * found[i];
  }

  void release(std::span<const CodedTensor> tensors) const {
    for (const CodedTensor& tensor : tensors) {
      const bool kept = rank_of(tensor.shape) > 0;
      for (std::int64_t i = 0; i < tensor.shape.values(); ++i) {
        tensor.y[i] = tensor.x[i] + (kept ? tensor.states[0][i] : 0.0F);
        if (kept) tensor.states[0][i] = 0;
      }
    }
  }

  std::int64_t rank_;
};

}  // namespace

void register_codec_power_sgd(CodecKinds& kinds) {
  kinds.add<PowerSgdOptions>(
      "power_sgd", "PowerSGD: a product of two thin matrices, what it lacks is added later",
      [](const PowerSgdOptions& options) -> CodecPtr { return std::make_shared<PowerSgd>(options); });
}

}  // namespace starling::dist
