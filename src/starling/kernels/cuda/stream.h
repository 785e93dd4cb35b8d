#pragma once

#include <cstdint>
#include <optional>

#include "starling/kernels/cuda/device/real.h"
#include "starling/kernels/kernel.h"
#include "starling/kernels/launch_args.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::cuda {

// Stream that a kernel must use; the default one for eager calls.
inline cudaStream_t stream_of(const kernels::Launch& launch) {
  return static_cast<cudaStream_t>(launch.context.stream);
}

using kernels::input;
using kernels::output;

// Libraries refuse scratch that does not begin at a multiple of 256 bytes; a launch's does at one of 64.
inline constexpr std::size_t kLibraryAlignment = 256;
inline std::size_t library_scratch(std::size_t bytes) { return bytes > 0 ? bytes + kLibraryAlignment : 0; }
inline void* library_aligned(void* scratch) {
  const auto at = reinterpret_cast<std::uintptr_t>(scratch);
  return reinterpret_cast<void*>((at + kLibraryAlignment - 1) / kLibraryAlignment * kLibraryAlignment);
}

// Kind of float that device code reads and converts; none for other dtypes.
inline std::optional<device::Real> real_of(DType dtype) {
  if (dtype == DType::f32) return device::Real::f32;
  if (dtype == DType::bf16) return device::Real::bf16;
  return dtype == DType::f16 ? std::optional(device::Real::f16) : std::nullopt;
}

inline bool all_f32(std::span<const kernels::ArgDesc> args) {
  for (const auto& arg : args) {
    if (arg.dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace starling::cuda
