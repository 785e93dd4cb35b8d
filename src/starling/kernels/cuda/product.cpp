#include "starling/kernels/cuda/product.h"

#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "starling/kernels/cuda/lt_product.h"
#include "starling/kernels/cuda/stopwatch.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::cuda {
namespace {

using device::GemmCut;
using device::GemmFormat;

class TileProduct final : public Product {
 public:
  TileProduct(const ProductSpec& spec, GemmCut cut) : format_{spec.trans_a, spec.trans_b}, cut_(cut) {
    const auto tile = device::gemm_tile(cut.tile);
    name = fmt::format("tiles {}x{} split {}", tile.m, tile.n, cut.split);
    check_cuda(device::load_gemm(format_, cut_), "loading a kernel");
  }
  void run(const device::Gemm& gemm, void*, cudaStream_t stream) const override {
    check_cuda(device::launch_gemm(gemm, format_, cut_, stream), "launching a product");
  }

 private:
  GemmFormat format_;
  GemmCut cut_;
};

std::int64_t pieces(int size, int tile) { return (size + tile - 1) / tile; }

// Tilings worth trying: enough blocks to fill the chip but not many waves, and a non-empty part of k for each split.
std::vector<GemmCut> cuts(const ProductSpec& s) {
  constexpr std::int64_t kMostBlocks = 132 * 24;
  std::vector<GemmCut> found;
  for (int tile = 0; tile < device::kGemmTiles; ++tile) {
    const auto shape = device::gemm_tile(tile);
    const std::int64_t blocks = pieces(s.m, shape.m) * pieces(s.n, shape.n);
    const bool largest = tile + 1 == device::kGemmTiles;
    for (int split = 1; split <= 8; split *= 2) {
      const bool some = split == 1 || pieces(s.k, shape.k) >= split;
      if (some && ((largest && split == 1) || blocks * split <= kMostBlocks)) found.push_back({tile, split});
    }
  }
  return found;
}

std::vector<std::shared_ptr<const Product>> candidates(const ProductSpec& spec) {
  constexpr int kFromLibrary = 8;
  std::vector<std::shared_ptr<const Product>> all = lt_products(spec, kFromLibrary);
  if (spec.dtype != DType::f32) return all;
  for (const auto& cut : cuts(spec)) all.push_back(std::make_shared<TileProduct>(spec, cut));
  return all;
}

// Operands of the right sizes for a timing run.
struct Trial {
  explicit Trial(const ProductSpec& s)
      : a(bytes(s.m, s.k)),
        b(bytes(s.k, s.n)),
        c(bytes(s.m, s.n)),
        w(s.epilogue == device::Epilogue::activate ? 0 : bytes(s.m, s.n)),
        v(s.epilogue == device::Epilogue::sgd ? bytes(s.m, s.n) : 0),
        bias(bytes(1, s.n)) {
    gemm = empty_gemm(s);
    gemm.a = at(a), gemm.b = at(b), gemm.c = at(c), gemm.y = at(w), gemm.lr = at(bias);
    gemm.w = gemm.w_out = at(w), gemm.v = gemm.v_out = at(v);
    if (s.bias) gemm.bias = at(bias);
  }
  static std::size_t bytes(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * 4;
  }
  static float* at(const TrialMemory& memory) { return static_cast<float*>(memory.data()); }

  TrialMemory a, b, c, w, v, bias;
  device::Gemm gemm{};
};

std::shared_ptr<const Product> fastest(const ProductSpec& spec) {
  const auto all = candidates(spec);
  const Trial trial(spec);
  std::shared_ptr<const Product> best;
  float least = std::numeric_limits<float>::infinity();
  for (const auto& product : all) {
    const TrialMemory scratch(product->scratch_bytes);
    const float ms = time_on_device([&](cudaStream_t stream) { product->run(trial.gemm, scratch.data(), stream); });
    if (ms >= least) continue;
    least = ms;
    best = product;
  }
  check(best != nullptr, "[matmul] expected a way to multiply {}x{} by {}x{} on the device, got none", spec.m, spec.k,
        spec.k, spec.n);
  return best;
}

}  // namespace

device::Gemm empty_gemm(const ProductSpec& spec) {
  device::Gemm gemm{};
  gemm.m = spec.m, gemm.n = spec.n, gemm.k = spec.k;
  gemm.epilogue = spec.epilogue;
  gemm.activation = spec.activation;
  return gemm;
}

std::shared_ptr<const Product> best_product(const ProductSpec& spec) {
  static std::mutex mutex;
  static auto& known = *new std::map<ProductSpec, std::shared_ptr<const Product>>;
  const std::lock_guard lock(mutex);
  auto& slot = known[spec];
  if (!slot) slot = fastest(spec);
  return slot;
}

}  // namespace starling::cuda
