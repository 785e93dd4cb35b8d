#include "starling/ops/def/attrs/linear_epilogue.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Product in blocks that stay in cache, each by one thread, with the epilogue applied to a block before the next: the
// result is written to memory once.
constexpr std::int64_t kBlockCols = 256, kLeastCols = 64;
constexpr std::int64_t kBlockRows = 1024, kLeastRows = 32;

struct Cut {
  std::int64_t size = 0, step = 1;
  std::int64_t pieces() const { return (size + step - 1) / step; }
  std::int64_t begin(std::int64_t i) const { return i * step; }
  std::int64_t count(std::int64_t i) const { return std::min(step, size - i * step); }
};

struct Blocks {
  Cut rows, cols;
  Blocks(std::int64_t m, std::int64_t n, int threads) : rows{m, kBlockRows}, cols{n, kBlockCols} {
    while (rows.pieces() * cols.pieces() < 2 * threads && (cols.step > kLeastCols || rows.step > kLeastRows)) {
      if (cols.step > kLeastCols)
        cols.step /= 2;
      else
        rows.step /= 2;
    }
  }
};

// Elementwise function at the end, with its parameter.
struct Ending {
  BlockFn fn = nullptr;
  double parameter = 0;
};

template <class T>
class LinearEpilogue {
 public:
  LinearEpilogue(const op::LinearEpilogueAttrs& attrs, std::int64_t m, std::int64_t n, std::int64_t k, int threads)
      : attrs_(attrs), n_(n), k_(k), blocks_(m, n, threads) {
    const std::int64_t tasks = blocks_.rows.pieces() * blocks_.cols.pieces();
    threads_ = static_cast<int>(std::clamp<std::int64_t>(tasks, 1, threads));
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 2; ++c) {
        const std::int64_t rows = blocks_.rows.count(r == 0 ? 0 : blocks_.rows.pieces() - 1);
        const std::int64_t cols = blocks_.cols.count(c == 0 ? 0 : blocks_.cols.pieces() - 1);
        plans_[r][c] = plan_gemm({.m = rows, .n = cols, .k = k, .trans_b = true, .ldc = n}, 1, sizeof(T));
        scratch_ = std::max(scratch_, (gemm_scratch_bytes(plans_[r][c]) + 63) / 64 * 64);
      }
    }
  }

  // Returns true if every required function exists for this type.
  bool find_functions(DType dtype) {
    const DType two[] = {dtype, dtype};
    add_ = find_block(named_op<"add">(), two).fn;
    if (attrs_.activation.empty()) return add_ != nullptr;
    ending_ = {find_block(*ending_op(attrs_.activation), {two, 1}).fn, attrs_.parameter};
    return add_ != nullptr && ending_.fn != nullptr;
  }

  std::size_t scratch_bytes() const { return scratch_ * static_cast<std::size_t>(threads_); }

  void run(const Launch& launch) const {
    const std::int64_t tasks = blocks_.rows.pieces() * blocks_.cols.pieces();
    parallel_run(threads_, [&](int thread) {
      auto* scratch = static_cast<std::byte*>(launch.scratch) + scratch_ * static_cast<std::size_t>(thread);
      // Columns in the outer loop: blocks that share weights are consecutive.
      for (std::int64_t task = tasks * thread / threads_; task < tasks * (thread + 1) / threads_; ++task)
        run_one(launch, task % blocks_.rows.pieces(), task / blocks_.rows.pieces(), scratch);
    });
  }

 private:
  void run_one(const Launch& launch, std::int64_t row, std::int64_t col, void* scratch) const {
    const std::int64_t r0 = blocks_.rows.begin(row), c0 = blocks_.cols.begin(col), cols = blocks_.cols.count(col);
    const auto* x = static_cast<const T*>(launch.in[0]) + r0 * k_;
    const auto* w = static_cast<const T*>(launch.in[1]) + c0 * k_;
    const auto* bias = attrs_.biased ? static_cast<const T*>(launch.in[2]) + c0 : nullptr;
    T* before = static_cast<T*>(launch.out[attrs_.keep ? 1 : 0]) + r0 * n_ + c0;
    const GemmPlan& plan = plans_[row + 1 == blocks_.rows.pieces()][col + 1 == blocks_.cols.pieces()];
    if constexpr (std::is_same_v<T, float>) {
      GemmEpilogue epilogue;
      epilogue.bias_n = bias;
      gemm(plan, x, w, before, epilogue, scratch);
      bias = nullptr;
    } else {
      gemm(plan, x, w, before, false, scratch);
    }
    const T* residual =
        attrs_.residual ? static_cast<const T*>(launch.in[attrs_.biased ? 3 : 2]) + r0 * n_ + c0 : nullptr;
    T* y = static_cast<T*>(launch.out[0]) + r0 * n_ + c0;
    for (std::int64_t i = 0; i < blocks_.rows.count(row); ++i) {
      T* line = before + i * n_;
      if (bias) add(line, bias, cols);
      if (residual) add(line, residual + i * n_, cols);
      if (ending_.fn) {
        const void* in[] = {line};
        ending_.fn(in, 0, y + i * n_, cols, &ending_.parameter);
      }
    }
  }

  void add(T* line, const T* other, std::int64_t count) const {
    const void* in[] = {line, other};
    add_(in, 0, line, count, nullptr);
  }

  op::LinearEpilogueAttrs attrs_;
  std::int64_t n_, k_;
  Blocks blocks_;
  GemmPlan plans_[2][2];  // whole and last block, by rows and columns
  std::size_t scratch_ = 0;
  int threads_ = 1;
  BlockFn add_ = nullptr;
  Ending ending_;
};

template <class T>
std::unique_ptr<Plan> plan_epilogue(const PlanRequest& request) {
  const Shape &x = request.in[0].shape, &w = request.in[1].shape;
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x[i];
  if (rows == 0 || w[0] == 0) return make_plan([](const Launch&) {});
  LinearEpilogue<T> ends(request.attrs.as<op::LinearEpilogueAttrs>(), rows, w[0], w[1], request.threads);
  if (!ends.find_functions(request.in[0].dtype)) return nullptr;
  return make_plan(ends.scratch_bytes(), [ends](const Launch& launch) { ends.run(launch); });
}

std::unique_ptr<Plan> plan_linear_epilogue(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  if (dtype == DType::f32) return plan_epilogue<float>(request);
  return dtype == DType::f64 ? plan_epilogue<double>(request) : nullptr;
}

}  // namespace

void register_cpu_linear_epilogue(KernelTable& table) {
  table.add("linear_epilogue", DeviceKind::cpu, {"blocks", Accepts::contiguous, plan_linear_epilogue});
}

}  // namespace starling::kernels
