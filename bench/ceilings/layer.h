#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace starling::ceilings {

enum class Kind { conv, dense, product, lstm, max_pool, average_pool, batch_norm, layer_norm, softmax, eltwise };
enum class Activation { none, relu, tanh, sigmoid, gelu };

// Work that a training step asks of a layer. `backward` is for layers whose gradients come out of one primitive.
enum class Pass { forward, backward_data, backward_weights, backward };

// One layer's shape. Images are batch × in × height × width; rows of a dense layer, a norm or a softmax are `batch`.
// A product is `batch` times [height, in] × [in, out]; `transposed` says that its second operand is stored [out, in].
struct Layer {
  Kind kind{};
  std::int64_t batch = 1;
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t steps = 1;
  Activation activation = Activation::none;
  bool transposed = false;
  bool first = false;  // the network's input needs no gradient

  auto operator<=>(const Layer&) const = default;

  std::int64_t out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
};

// "conv 64x3x224x224 k11s4p2 -> 96": the name of a shape in every table; no commas.
std::string name(const Layer& layer);
const char* name(Pass pass);

// True for layers made of multiply-adds (conv, dense, product, lstm), whose ceiling is the arithmetic and not the
// memory.
bool is_arithmetic(const Layer& layer);

// Floating-point operations of one pass over an arithmetic layer (multiply and add count as two), 0 for the others.
double flops(const Layer& layer, Pass pass);

}  // namespace starling::ceilings
