#pragma once

#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Ops on a session's named queues (tensor/queue.h), for graphs only. They run in the order of application, are never
// merged, and block while the queue makes them wait. An element is one tensor or several.

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

// Results of type i64[] are the number of elements in the queue after the call.
Tensor enqueue(const std::string& queue, std::span<const Tensor> element);
Tensor enqueue(const std::string& queue, std::initializer_list<Tensor> element);
TensorList dequeue(const std::string& queue, const std::vector<TensorType>& types);
TensorList dequeue_many(const std::string& queue, std::int64_t n, const std::vector<TensorType>& types);
Tensor queue_size(const std::string& queue);
Tensor queue_close(const std::string& queue);

}  // namespace starling
