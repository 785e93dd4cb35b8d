#include "starling/kernels/cuda/device/gemm.h"
#include "starling/kernels/cuda/device/gemm_epilogue.cuh"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {

// Defined in gemm_nn.cu, gemm_nt.cu, gemm_tn.cu, gemm_tt.cu.
template <bool TransA, bool TransB>
cudaError_t load_format(int tile);
template <bool TransA, bool TransB>
cudaError_t launch_format(const Gemm& gemm, GemmCut cut, bool wide, cudaStream_t stream);

GemmTile gemm_tile(int tile) {
  constexpr GemmTile tiles[kGemmTiles] = {{16, 16, 128}, {32, 16, 64}, {32, 32, 64},
                                          {64, 16, 64},  {64, 32, 32}, {64, 64, 32}};
  return tiles[tile];
}

namespace {

bool aligned(const void* p) { return reinterpret_cast<unsigned long long>(p) % 16 == 0; }

// True if every line of every operand can be read four floats at a time.
bool is_wide(const Gemm& g, GemmFormat format) {
  const int line_a = format.trans_a ? g.m : g.k, line_b = format.trans_b ? g.k : g.n;
  if (line_a % 4 != 0 || line_b % 4 != 0) return false;
  for (const void* p :
       {static_cast<const void*>(g.a), static_cast<const void*>(g.b), static_cast<const void*>(g.c),
        static_cast<const void*>(g.bias), static_cast<const void*>(g.y), static_cast<const void*>(g.w),
        static_cast<const void*>(g.v), static_cast<const void*>(g.w_out), static_cast<const void*>(g.v_out)}) {
    if (!aligned(p)) return false;
  }
  return true;
}

__global__ void __launch_bounds__(256) epilogue_kernel(const __grid_constant__ Gemm p, const float* product) {
  begin();
  const int fours = (p.n + 3) / 4;
  const long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int row = static_cast<int>(e / fours), col = static_cast<int>(e % fours) * 4;
  if (row >= p.m) return;
  const int count = min(4, p.n - col);
  const float lr = p.epilogue == Epilogue::sgd ? *p.lr : 0.f;
  const Four given = load_four(product + static_cast<long long>(row) * p.n + col, count, false);
  finish_four(p, given, load_operands(p, row, col, count, false), lr, row, col, count, false);
}

}  // namespace

cudaError_t load_gemm(GemmFormat format, GemmCut cut) {
  if (format.trans_a) return format.trans_b ? load_format<true, true>(cut.tile) : load_format<true, false>(cut.tile);
  return format.trans_b ? load_format<false, true>(cut.tile) : load_format<false, false>(cut.tile);
}

cudaError_t launch_gemm(const Gemm& gemm, GemmFormat format, GemmCut cut, cudaStream_t stream) {
  const bool wide = is_wide(gemm, format);
  if (format.trans_a) {
    return format.trans_b ? launch_format<true, true>(gemm, cut, wide, stream)
                          : launch_format<true, false>(gemm, cut, wide, stream);
  }
  return format.trans_b ? launch_format<false, true>(gemm, cut, wide, stream)
                        : launch_format<false, false>(gemm, cut, wide, stream);
}

cudaError_t load_epilogue() { return load(epilogue_kernel); }

cudaError_t launch_epilogue(const Gemm& gemm, const float* product, cudaStream_t stream) {
  const long long fours = static_cast<long long>((gemm.n + 3) / 4) * gemm.m;
  return launch(epilogue_kernel, {dim3(blocks_for(fours, 256)), dim3(256)}, stream, gemm, product);
}

}  // namespace starling::device
