#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// A graph cut over devices holds one send and one recv for every tensor and device it goes to, paired by their key.
// send() hands the tensor to the device `to` and goes on; without an operand it says only that it has been reached.
struct SendAttrs {
  Symbol key{};
  Symbol to{};  // a device: "cpu:1"
  static AttrFields fields() { return {field("key", &SendAttrs::key), field("to", &SendAttrs::to)}; }
};

// Waits for what the device `from` sends by that key and copies it into memory of its own.
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
// release(x) stands where every receiver of x has taken its copy: until then x keeps its memory.

struct DelayAttrs {
  double milliseconds = 0;  // up to a minute
  static AttrFields fields() { return {field("milliseconds", &DelayAttrs::milliseconds)}; }
};

// The same tensor, some time later: the thread sleeps. For tests of schedules and of predictions.
Tensor delay(const Tensor& x, double milliseconds);

}  // namespace starling
