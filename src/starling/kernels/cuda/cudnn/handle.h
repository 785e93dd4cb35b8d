#pragma once

#include <cudnn.h>

#include <mutex>
#include <utility>

#include "starling/base/error.h"
#include "starling/tensor/dtype.h"

namespace starling::cuda {

inline void check_cudnn(cudnnStatus_t status, const char* what) {
  check(status == CUDNN_STATUS_SUCCESS, "[cuda] expected {} to succeed, got {}", what, cudnnGetErrorString(status));
}

// One handle for the process, bound to a stream for each call: a call only enqueues.
class LibraryHandle {
 public:
  static LibraryHandle& shared() {
    static auto& handle = *new LibraryHandle;
    return handle;
  }
  template <class Use>
  auto with(cudaStream_t stream, Use&& use) {
    const std::lock_guard lock(mutex_);
    check_cudnn(cudnnSetStream(handle_, stream), "choosing a stream");
    return use(handle_);
  }

 private:
  LibraryHandle() { check_cudnn(cudnnCreate(&handle_), "starting cuDNN"); }
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

inline cudnnDataType_t library_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

}  // namespace starling::cuda
