#pragma once

#include <cuda_runtime.h>

// Products of f32 matrices on tensor cores (operands rounded to tf32, sums in f32) for batches of tens of rows, where a
// library spends its time on launch and set-up. The epilogue runs before the result is stored.
namespace starling::device {

enum class Activation : int { none, relu, tanh, sigmoid };

enum class Epilogue : int {
  activate,  // c = act(ab + bias)
  backward,  // c = ab · act'(y)
  sgd,       // g = ab + decay · w; v' = momentum · v + g; w' = w - lr · v'
};

struct Gemm {
  const float* a;  // [m, k], or [k, m] where trans_a; dense
  const float* b;  // [k, n], or [n, k] where trans_b
  int m, n, k;
  Epilogue epilogue;
  Activation activation;
  float* c;           // [m, n]
  const float* bias;  // [n] or null
  const float* y;     // [m, n]
  const float* w;     // [m, n]; w_out may be the same array
  const float* v;
  float* w_out;
  float* v_out;
  const float* lr;
  float momentum, decay;
};

// Memory format of the operands.
struct GemmFormat {
  bool trans_a;
  bool trans_b;
};

// Tiling of a product.
struct GemmCut {
  int tile = 0;   // one of kGemmTiles
  int split = 1;  // blocks that share one tile of the result, each with a part of k; 1 to 8
};
inline constexpr int kGemmTiles = 6;
struct GemmTile {
  int m, n, k;
};
GemmTile gemm_tile(int tile);

cudaError_t load_gemm(GemmFormat format, GemmCut cut);
cudaError_t launch_gemm(const Gemm& gemm, GemmFormat format, GemmCut cut, cudaStream_t stream);

// Epilogue alone, on a product in memory (in c of [m, n], or in g for sgd).
cudaError_t load_epilogue();
cudaError_t launch_epilogue(const Gemm& gemm, const float* product, cudaStream_t stream);

}  // namespace starling::device
