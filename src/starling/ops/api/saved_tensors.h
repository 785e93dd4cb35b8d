#pragma once

#include <span>
#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Saving and restoring as ops, in safetensors files: eager, or as graph nodes. A file name may contain "{step}", filled
// in from a tensor i64[]: "model-{step}.safetensors".

struct SaveAttrs {
  Symbol file{};
  Symbol names{};  // names of the tensors, separated by commas
  static AttrFields fields() { return {field("file", &SaveAttrs::file), field("names", &SaveAttrs::names)}; }
};
struct RestoreAttrs {
  Symbol file{};
  Symbol name{};
  Shape shape{};
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("file", &RestoreAttrs::file), field("name", &RestoreAttrs::name),
            field("shape", &RestoreAttrs::shape), field("dtype", &RestoreAttrs::dtype)};
  }
};

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

bool is_numbered(Symbol file);  // true if it contains "{step}"
std::string numbered(const std::string& file, std::int64_t step);
std::vector<std::string> split_names(const std::string& names);

}  // namespace starling
