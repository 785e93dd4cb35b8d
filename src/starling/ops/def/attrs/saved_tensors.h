#pragma once

#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"

namespace starling::op {

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

bool is_numbered(Symbol file);  // true if it contains "{step}"
std::string numbered(const std::string& file, std::int64_t step);
std::vector<std::string> split_names(const std::string& names);

}  // namespace starling::op
