#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "starling/kernels/cuda/elementwise.h"

namespace starling::cuda {

// Definitions that stand before device code, so that the code itself is plain text: sizes, attributes and types of the
// call that it is compiled for, in capitals.
//   CodeNames names;
//   names.number("ROWS", 3).real("EPS", 1e-5).type("T", DType::f32);
class CodeNames {
 public:
  CodeNames& number(std::string_view name, std::int64_t value) {
    return expression(name, fmt::format("({}ll)", value));
  }
  CodeNames& real(std::string_view name, double value) { return expression(name, literal(value)); }
  CodeNames& type(std::string_view name, DType dtype) { return expression(name, c_type(dtype)); }
  CodeNames& expression(std::string_view name, std::string_view value) {
    text_ += fmt::format("#define {} {}\n", name, value);
    return *this;
  }
  CodeNames& code(std::string_view functions) {
    text_ += functions;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// True for the floats that device code computes with as they are: f32 and f64.
inline bool is_plain_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

}  // namespace starling::cuda
