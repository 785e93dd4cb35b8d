#include "starling/kernels/cuda/device/gemm_kernel.cuh"

namespace starling::device {

template cudaError_t load_format<false, false>(int tile);
template cudaError_t launch_format<false, false>(const Gemm& gemm, GemmCut cut, bool wide, cudaStream_t stream);

}  // namespace starling::device
