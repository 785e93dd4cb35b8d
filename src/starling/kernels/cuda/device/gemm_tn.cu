#include "starling/kernels/cuda/device/gemm_kernel.cuh"

namespace starling::device {

template cudaError_t load_format<true, false>(int tile);
template cudaError_t launch_format<true, false>(const Gemm& gemm, GemmCut cut, bool wide, cudaStream_t stream);

}  // namespace starling::device
