#include "starling/kernels/cuda/lt_product.h"

#include <cublasLt.h>

#include <algorithm>

#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {
namespace {

using device::Activation;
using device::Epilogue;

void check_lt(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS, "[cublaslt] expected {} to succeed, got {}", what,
        cublasLtGetStatusString(status));
}

// One handle for all devices and threads, as the library allows.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t h = nullptr;
    check_lt(cublasLtCreate(&h), "starting cuBLASLt");
    return h;
  }();
  return made;
}

// Alignment that the library's algorithms may assume. Views of tensors may begin at any element: those use our own
// kernel or, of 16-bit floats, an algorithm that assumes nothing.
constexpr std::uint32_t kAlignment = 16;
constexpr device::GemmCut kUnaligned{.tile = 4, .split = 1};

bool is_aligned(const device::Gemm& gemm) {
  for (const void* p :
       {static_cast<const void*>(gemm.a), static_cast<const void*>(gemm.b), static_cast<const void*>(gemm.c)}) {
    if (reinterpret_cast<std::uintptr_t>(p) % kAlignment != 0) return false;
  }
  return true;
}

// True if the library runs the epilogue: none, bias, relu and relu + bias; others take one more kernel.
bool finishes(const ProductSpec& spec) {
  return spec.epilogue == Epilogue::activate &&
         (spec.activation == Activation::none || spec.activation == Activation::relu);
}

cublasLtEpilogue_t library_epilogue(const ProductSpec& spec) {
  const bool relu = finishes(spec) && spec.activation == Activation::relu;
  if (spec.epilogue == Epilogue::activate && spec.bias)
    return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

cudaDataType_t library_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// Row-major c = a · b is column-major cᵀ = bᵀ · aᵀ: the library's first operand is b, and its bias runs along n.
struct Problem {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a, b, c;

  explicit Problem(const ProductSpec& s) {
    const auto compute = s.dtype == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_lt(cublasLtMatmulDescInit(&product, compute, CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(s));
    if (s.bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(s.dtype));
    describe(b, s.dtype, s.trans_b ? s.k : s.n, s.trans_b ? s.n : s.k);
    describe(a, s.dtype, s.trans_a ? s.m : s.k, s.trans_a ? s.k : s.m);
    describe(c, s.result, s.n, s.m);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    check_lt(cublasLtMatmulDescSetAttribute(&product, what, &value, sizeof(value)), "describing a product");
  }

 private:
  static void describe(cublasLtMatrixLayoutOpaque_t& to, DType dtype, int rows, int columns) {
    check_lt(cublasLtMatrixLayoutInit(&to, library_type(dtype), static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(columns), rows),
             "describing a matrix");
  }
};

std::vector<cublasLtMatmulHeuristicResult_t> algorithms(Problem problem, int most, std::uint32_t alignment);

class LtProduct final : public Product {
 public:
  LtProduct(const ProductSpec& spec, const Problem& problem, const cublasLtMatmulHeuristicResult_t& found)
      : spec_(spec), problem_(problem), algorithm_(found.algo), workspace_(found.workspaceSize) {
    name = "cublaslt";
    if (spec.dtype != DType::f32) {
      check(finishes(spec), "[matmul] expected an epilogue that the library has for 16-bit floats, got another");
      const auto anywhere = algorithms(problem, 1, size_of(spec.dtype));
      check(!anywhere.empty(), "[matmul] expected an algorithm for unaligned operands, got none");
      unaligned_ = anywhere[0].algo;
      workspace_ = std::max(workspace_, anywhere[0].workspaceSize);
      scratch_bytes = library_scratch(workspace_);
      return;
    }
    if (spec.epilogue == Epilogue::sgd)
      product_bytes_ = (static_cast<std::size_t>(spec.m) * static_cast<std::size_t>(spec.n) * 4 + 255) / 256 * 256;
    scratch_bytes = product_bytes_ + library_scratch(workspace_);
    check_cuda(device::load_gemm({spec.trans_a, spec.trans_b}, kUnaligned), "loading a kernel");
    if (!finishes(spec)) check_cuda(device::load_epilogue(), "loading a kernel");
  }

  void run(const device::Gemm& gemm, void* scratch, cudaStream_t stream) const override {
    const bool aligned = is_aligned(gemm);
    if (!aligned && spec_.dtype == DType::f32) {
      check_cuda(device::launch_gemm(gemm, {spec_.trans_a, spec_.trans_b}, kUnaligned, stream), "launching a product");
      return;
    }
    auto* product = spec_.epilogue == Epilogue::sgd ? static_cast<float*>(scratch) : gemm.c;
    Problem problem = problem_;  // copy, since the bias differs from run to run
    if (spec_.epilogue == Epilogue::activate && spec_.bias) problem.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias);
    const float one = 1, zero = 0;
    check_lt(cublasLtMatmul(handle(), &problem.product, &one, gemm.b, &problem.b, gemm.a, &problem.a, &zero, product,
                            &problem.c, product, &problem.c, aligned ? &algorithm_ : &unaligned_,
                            library_aligned(static_cast<std::byte*>(scratch) + product_bytes_), workspace_, stream),
             "launching a product");
    if (finishes(spec_)) return;
    device::Gemm rest = gemm;
    rest.bias = nullptr;  // already added
    check_cuda(device::launch_epilogue(rest, product, stream), "launching a kernel");
  }

 private:
  ProductSpec spec_;
  Problem problem_;
  cublasLtMatmulAlgo_t algorithm_, unaligned_{};
  std::size_t workspace_;
  std::size_t product_bytes_ = 0;
};

// Likely best first; those that work for operands and results of this alignment.
std::vector<cublasLtMatmulHeuristicResult_t> algorithms(Problem problem, int most, std::uint32_t alignment) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_lt(cublasLtMatmulPreferenceInit(&preference), "asking for algorithms");
  const std::size_t workspace = std::size_t{64} << 20;
  check_lt(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                sizeof(workspace)),
           "asking for algorithms");
  for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    check_lt(cublasLtMatmulPreferenceSetAttribute(&preference, what, &alignment, sizeof(alignment)),
             "asking for algorithms");
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(handle(), &problem.product, &problem.b, &problem.a, &problem.c,
                                                     &problem.c, &preference, most, found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

}  // namespace

std::vector<std::shared_ptr<const Product>> lt_products(const ProductSpec& spec, int most) {
  if (spec.m == 0 || spec.n == 0 || spec.k == 0) return {};
  const Problem problem(spec);
  std::vector<std::shared_ptr<const Product>> products;
  for (const auto& one : algorithms(problem, most, kAlignment))
    products.push_back(std::make_shared<LtProduct>(spec, problem, one));
  return products;
}

}  // namespace starling::cuda
