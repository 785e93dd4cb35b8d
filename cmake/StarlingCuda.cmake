# The CUDA language and libraries. Include it from the top CMakeLists.txt, before the rooms, when STARLING_CUDA is on;
# `starling_deps` links ${STARLING_CUDA_LIBRARIES}, which is empty otherwise.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)  # kernels use what Hopper brought: clusters, overlapped launches
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)

# Device code is C++17 and includes plain headers only: the compiler does not take every C++20 header of the host.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")

set(STARLING_CUDA_LIBRARIES CUDA::cudart_static CUDA::cublasLt CUDA::nvrtc)

# Optional: GPUs of several ranks.
find_path(STARLING_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(STARLING_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(STARLING_NCCL_INCLUDE AND STARLING_NCCL_LIBRARY)
  set(STARLING_NCCL ON)
  list(APPEND STARLING_CUDA_LIBRARIES ${STARLING_NCCL_LIBRARY})
else()
  set(STARLING_NCCL OFF)
  message(STATUS "NCCL was not found: no communication between GPUs")
endif()

# Optional: convolutions by cuDNN; without it they run by kernels of our own, which are slower.
find_path(STARLING_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(STARLING_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
if(STARLING_CUDNN_INCLUDE AND STARLING_CUDNN_LIBRARY)
  set(STARLING_CUDNN ON)
  list(APPEND STARLING_CUDA_LIBRARIES ${STARLING_CUDNN_LIBRARY})
else()
  set(STARLING_CUDNN OFF)
  message(STATUS "cuDNN was not found: convolutions run by slower kernels")
endif()
