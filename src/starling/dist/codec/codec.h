#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"
#include "starling/dist/comm/comm.h"
#include "starling/tensor/shape.h"

namespace starling::dist {

// Tensor as codecs see it: `lines` runs of `width` consecutive values. A line is what belongs to one index of the first
// dimension, such as the weights of one output; a tensor with fewer than two dimensions is one line.
struct CodedShape {
  std::int64_t lines = 1;
  std::int64_t width = 0;
  std::int64_t values() const { return lines * width; }
};
CodedShape coded_shape(const Shape& shape);

// Tensor of f32 that a codec keeps of a gradient between steps, on every rank.
struct CodecState {
  std::string name;  // "residual"
  Shape shape{};
  bool shared = false;  // equal on all ranks. Else each rank has its own part of a sum over ranks
  std::function<void(std::span<float> values)> begin = nullptr;  // first values; null: zeros
};

// One gradient of a reduction: x is this rank's term, y becomes the sum of all ranks' and may be x. `states` are in the
// order of Codec::states() and are changed in place.
struct CodedTensor {
  CodedShape shape;
  const float* x = nullptr;
  float* y = nullptr;
  std::span<float* const> states{};
  double* coded = nullptr;  // where reduce() tells the bytes of this gradient's wire form, among several ranks
};

// A gradient that is a product δᵀ·a of a dense layer: each rank has `rows` rows of δ, [rows, outputs], and of a,
// [rows, inputs].
struct FactorShape {
  std::int64_t rows = 0;
  std::int64_t outputs = 0, inputs = 0;
};

// Costs in this world, equal on all ranks.
struct WorldCosts {
  int ranks = 1;
  double byte_seconds = 0;     // of a byte that a rank sends
  double message_seconds = 0;  // of a message of no bytes
  double flop_seconds = 0;     // of an operation of a product, the mean over ranks; 0: not measured
  double half_seconds = 0;     // of coding a value in 16 bits and decoding it, the mean over ranks
  double bit_seconds = 0;      // the same of one bit
};

// Forms that a codec may choose from, gradient by gradient.
enum class GradientForm : std::uint8_t { dense, bf16, one_bit, factors };
std::string_view name(GradientForm form);

// Facts of a gradient that a choice of its form reads.
struct GradientFacts {
  CodedShape shape{};
  std::optional<FactorShape> factors{};  // if the gradient is such a product
};

// Wire form of one worker's gradient towards a parameter server, which decodes every push by itself, without ranks.
// What is not sent is kept in the codec's states, of which the first one, if there is any, is the sum of it.
class PushCoder {
 public:
  virtual bool by_line() const = 0;                                   // lines must stay whole
  virtual std::size_t most_bytes(const CodedShape& shape) const = 0;  // that encode() writes
  // Takes x into the states, writes what is sent now to `wire` (aligned for words) and takes that out of the states;
  // returns the bytes written. y is not looked at.
  virtual std::size_t encode(const CodedTensor& tensor, std::byte* wire) const = 0;
  // Writes to y what `wire` (aligned for words) says. Failure: encode() does not write this for a tensor of this shape;
  // its size is judged before memory of y is touched.
  virtual Result<void> decode(const CodedShape& shape, std::span<const std::byte> wire, std::span<float> y) const = 0;

 protected:
  ~PushCoder() = default;  // part of a codec
};

// How the gradients of all ranks are summed with fewer bytes than they have. What a codec does not send it keeps in its
// states and sends later: over time nothing is lost. Immutable: one object serves all tensors and threads.
//
// Values that are not finite stay so: where a rank's x has one, some value of y on every rank is not finite either.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual std::vector<CodecState> states(const Shape& shape) const = 0;

  // Bytes that reduce() needs as scratch memory.
  virtual std::size_t scratch_bytes(std::span<const CodedShape> shapes, int rank, int ranks) const = 0;

  // True if the gradient of a dense layer travels as its factors, which every rank gathers and multiplies itself.
  virtual bool by_factors([[maybe_unused]] const FactorShape& shape, [[maybe_unused]] const WorldCosts& costs) const {
    return false;
  }
  virtual bool needs_costs() const { return false; }   // by_factors() and choose() read the costs
  virtual bool only_factors() const { return false; }  // other gradients travel as they are, not by reduce()

  // The form of a gradient, for codecs that choose one; those of `without` are not to be had. nullopt: this codec has
  // one form for all.
  virtual std::optional<GradientForm> choose([[maybe_unused]] const GradientFacts& facts,
                                             [[maybe_unused]] const WorldCosts& costs,
                                             [[maybe_unused]] std::span<const GradientForm> without) const {
    return std::nullopt;
  }
  // Steps between two choices, of codecs that choose while training goes on; 0: they choose once.
  virtual std::int64_t choose_every() const { return 0; }
  // Largest compression error (norm of what is kept as a share of the gradient's) at which one_bit is still to be had.
  virtual double most_error() const { return 0; }

  // Wire form towards parameter servers, which lives as long as the codec; null: it has none.
  virtual const PushCoder* push_coder() const { return nullptr; }

  // Collective, with the same shapes on all ranks. The sums have the same bits on all ranks. With one rank nothing is
  // sent and nothing lost: y = x + what was kept.
  virtual void reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
                      std::string_view name) const = 0;
};
using CodecPtr = std::shared_ptr<const Codec>;

// Wire form of values in memory, without ranks: what routes (dist/codec/routes) exchange.
class Coder {
 public:
  virtual ~Coder() = default;
  virtual bool by_line() const = 0;   // lines must stay whole; else any run of values is a piece
  virtual bool residual() const = 0;  // encode() keeps what it loses
  virtual std::size_t wire_bytes(const CodedShape& shape) const = 0;
  // Encodes x, or x + residual if there is one, which becomes what decode() will lack.
  virtual void encode(const CodedShape& shape, const float* x, float* residual, std::byte* wire) const = 0;
  virtual void decode(const CodedShape& shape, const std::byte* wire, float* y) const = 0;
  virtual void decode_add(const CodedShape& shape, const std::byte* wire, float* y) const = 0;
};

}  // namespace starling::dist
