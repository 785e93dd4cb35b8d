#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

#include "starling/tensor/dtype.h"

// The structures of DLPack, whose layout its standard fixes: https://dmlc.github.io/dlpack.
namespace starling::python::dlpack {

using Array = nanobind::dlpack::dltensor;

struct Managed {  // before version 1
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
  Array array;
  void* context;
  void (*deleter)(Managed*);
};

inline constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

struct ManagedVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
  struct {
    std::uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Array array;
};

// Kinds of devices. Memory that a GPU reads too (host, managed) is its owner's to place.
enum : std::int32_t { kOnCpu = 1, kOnCuda = 2, kOnCudaHost = 3, kOnCudaManaged = 13 };

nanobind::dlpack::dtype dtype_code(DType dtype);
DType dtype_of_code(nanobind::dlpack::dtype given);  // TypeError for complex numbers and the like

}  // namespace starling::python::dlpack
