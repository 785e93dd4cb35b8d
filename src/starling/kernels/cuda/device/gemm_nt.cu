#include "starling/kernels/cuda/device/gemm_kernel.cuh"

namespace starling::device {

template cudaError_t load_format<false, true>(int tile);
template cudaError_t launch_format<false, true>(const Gemm& gemm, GemmCut cut, bool wide, cudaStream_t stream);

}  // namespace starling::device
