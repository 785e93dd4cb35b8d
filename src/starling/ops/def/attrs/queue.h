#pragma once

#include <string_view>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct QueueAttrs {
  Symbol queue{};
  static AttrFields fields() { return {field("queue", &QueueAttrs::queue)}; }
};
struct DequeueAttrs {
  Symbol queue{};
  Symbol types{};  // types of one element: "f32[784], i64[]"
  static AttrFields fields() { return {field("queue", &DequeueAttrs::queue), field("types", &DequeueAttrs::types)}; }
};
struct DequeueManyAttrs {
  Symbol queue{};
  Symbol types{};
  std::int64_t n = 1;
  static AttrFields fields() {
    return {field("queue", &DequeueManyAttrs::queue), field("types", &DequeueManyAttrs::types),
            field("n", &DequeueManyAttrs::n)};
  }
};

// Parses "f32[784], i64[]"; throws "[who] expected …, got …".
std::vector<TensorType> parse_types(std::string_view text, const char* who);

}  // namespace starling::op
