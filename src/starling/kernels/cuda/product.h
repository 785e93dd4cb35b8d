#pragma once

#include <compare>
#include <memory>
#include <string>

#include "starling/kernels/cuda/device/gemm.h"
#include "starling/tensor/dtype.h"

namespace starling::cuda {

// Key of a product: everything that decides which implementation is fastest.
struct ProductSpec {
  int m = 0, n = 0, k = 0;
  DType dtype = DType::f32;   // of operands and bias; products of f32 round to tf32
  DType result = DType::f32;  // of the result: as the operands, or f32
  bool trans_a = false, trans_b = false;
  device::Epilogue epilogue = device::Epilogue::activate;
  device::Activation activation = device::Activation::none;
  bool bias = false;
  friend auto operator<=>(const ProductSpec&, const ProductSpec&) = default;
};

// One implementation of a product. Immutable; may run on several streams at once, each with its own scratch.
class Product {
 public:
  virtual ~Product() = default;
  // Enqueues the product; `gemm` has sizes, epilogue and pointers filled in, which point to elements of the spec's
  // dtypes whatever their own types. Throws when a launch fails.
  virtual void run(const device::Gemm& gemm, void* scratch, cudaStream_t stream) const = 0;
  std::size_t scratch_bytes = 0;
  std::string name;  // "tiles 16x16 split 4", "cublaslt"
};

// Fastest implementation on the current device, found by timing the candidates when a spec is first asked for and kept
// for the life of the process. Thread-safe.
std::shared_ptr<const Product> best_product(const ProductSpec& spec);

// Gemm with the sizes, epilogue and activation of a spec, without pointers.
device::Gemm empty_gemm(const ProductSpec& spec);

}  // namespace starling::cuda
