#pragma once

#include <cstdint>
#include <string>

#include "starling/nn/options.h"
#include "starling/tensor/tensor.h"

namespace starling::nn {

class Module;

enum class InitKind : std::uint8_t {
  standard,  // the layer's own default
  constant,
  uniform,
  normal,
  truncated_normal,
  xavier_uniform,
  xavier_normal,
  he_uniform,
  he_normal,
  lecun_uniform,
  lecun_normal,
  orthogonal,
  sparse,
  identity,
  dirac
};

// Initialisation of a parameter. Fans are counted as in PyTorch: of a weight [a, b, …], fan-in is b · …, fan-out a · ….
// Values depend on the seed and on the position of the call only, not on the number of threads.
struct Init {
  InitKind kind = InitKind::standard;
  double value = 0;  // constant: the value
  double low = 0;    // uniform: [low, high)
  double high = 1;
  double mean = 0;          // normal, truncated_normal
  double stddev = 1;        // normal, truncated_normal, sparse
  double bound = 2;         // truncated_normal: in standard deviations, on both sides
  double gain = 1;          // xavier, he, lecun, orthogonal: a further factor; he has √2 already
  bool fan_out = false;     // for `he`: use fan-out, which keeps the variance of gradients instead of activations
  double zeros = 0.9;       // sparse: fraction of zeros in each column of [out, in]
  std::int64_t groups = 1;  // dirac: number of channel groups

  static Settings settings();

  static Init constant(double value) { return {.kind = InitKind::constant, .value = value}; }
  static Init uniform(double low, double high) { return {.kind = InitKind::uniform, .low = low, .high = high}; }
  static Init normal(double stddev = 1, double mean = 0) {
    return {.kind = InitKind::normal, .mean = mean, .stddev = stddev};
  }
  static Init truncated_normal(double stddev = 1, double bound = 2, double mean = 0) {
    return {.kind = InitKind::truncated_normal, .mean = mean, .stddev = stddev, .bound = bound};
  }
  static Init xavier_uniform(double gain = 1) { return {.kind = InitKind::xavier_uniform, .gain = gain}; }
  static Init xavier_normal(double gain = 1) { return {.kind = InitKind::xavier_normal, .gain = gain}; }
  static Init he_uniform(bool fan_out = false) { return {.kind = InitKind::he_uniform, .fan_out = fan_out}; }
  static Init he_normal(bool fan_out = false) { return {.kind = InitKind::he_normal, .fan_out = fan_out}; }
  static Init lecun_uniform() { return {.kind = InitKind::lecun_uniform}; }
  static Init lecun_normal() { return {.kind = InitKind::lecun_normal}; }
  static Init orthogonal(double gain = 1) { return {.kind = InitKind::orthogonal, .gain = gain}; }
  static Init sparse(double zeros, double stddev = 0.01) {
    return {.kind = InitKind::sparse, .stddev = stddev, .zeros = zeros};
  }
  static Init identity() { return {.kind = InitKind::identity}; }
  static Init dirac(std::int64_t groups = 1) { return {.kind = InitKind::dirac, .groups = groups}; }
};
const char* name(InitKind kind);

// New f32 values. Fans need rank 2 at least; `identity` a matrix, `dirac` a convolution's weight, `orthogonal` and
// `sparse` a matrix or a tensor with all axes but the first flattened. Throws on `standard`, which only a layer can
// resolve.
Tensor initial(const Shape& shape, const Init& init);
// New f32 values, with `standard` as uniform in ±bound.
Tensor initial(const Shape& shape, const Init& init, double bound);

// Reinitialises the parameters whose names match the pattern (* for any characters, ? for one): initialise(net,
// "*.weight", Init::he_normal()). Returns their number; throws when there are none.
std::size_t initialise(Module& net, const std::string& pattern, const Init& init);

bool matches(std::string_view name, std::string_view pattern);

}  // namespace starling::nn
