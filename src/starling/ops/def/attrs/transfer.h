#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

namespace op {

// Transfers between devices: a graph cut over devices has one send and one recv for every tensor and receiving device,
// paired by key. send() is asynchronous; without an operand it only signals that it was reached.
struct SendAttrs {
  Symbol key{};
  Symbol to{};  // device: "cpu:1"
  static AttrFields fields() { return {field("key", &SendAttrs::key), field("to", &SendAttrs::to)}; }
};

// Waits for the tensor that device `from` sends under that key and copies it into its own memory.
struct RecvAttrs {
  Symbol key{};
  Symbol from{};
  Shape shape{};
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("key", &RecvAttrs::key), field("from", &RecvAttrs::from), field("shape", &RecvAttrs::shape),
            field("dtype", &RecvAttrs::dtype)};
  }
};
// release(x) marks the place in the schedule by which every receiver of x has taken its copy; until there x keeps its
// memory.

struct DelayAttrs {
  double milliseconds = 0;  // up to a minute
  static AttrFields fields() { return {field("milliseconds", &DelayAttrs::milliseconds)}; }
};

}  // namespace op

// Identity after a delay: the thread sleeps. For tests of schedules and predictions.
Tensor delay(const Tensor& x, double milliseconds);

}  // namespace starling
