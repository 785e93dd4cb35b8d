#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Saving and restoring as ops, in safetensors files: eager, or as graph nodes. A file name may contain "{step}", filled
// in from a tensor i64[]: "model-{step}.safetensors".

// Writes the tensors with a checksum for each, atomically and durably. The result i64[] is the number of bytes of all
// tensors. Names must be distinct and contain no comma; the second form uses the names of the tensors, which must be
// variables.
Tensor save(const std::string& file, const std::vector<std::string>& names, std::span<const Tensor> tensors,
            const Tensor& step = {});
Tensor save(const std::string& file, std::span<const Tensor> variables, const Tensor& step = {});
inline Tensor save(const std::string& file, std::initializer_list<Tensor> variables, const Tensor& step = {}) {
  return save(file, std::span(variables.begin(), variables.size()), step);
}

// Reads the tensor of that name. Fails naming file, tensor, expected and given type if it is missing, of another type
// or damaged.
Tensor restore(const std::string& file, const std::string& name, const TensorType& type, const Tensor& step = {});

}  // namespace starling
