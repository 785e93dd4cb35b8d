#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "starling/nn/init.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/tensor.h"

namespace starling::nn {

// Numbers of which each is a function of its place in the tensor, so that a rank can make those of its piece alone.
struct Draw {
  enum class Kind : std::uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0;  // constant: the value; uniform: low; normal: mean
  double b = 0;  // uniform: high; normal: standard deviation
};

// Elements that lie side by side in a whole tensor and in a piece of it.
struct ElementRun {
  std::int64_t whole, part, count;  // offset of the first in each, in elements
};

// Parameters that initial() makes on this thread during its lifetime have no memory, but know how they begin: a rank
// then makes the pieces that it stores, with the numbers of the whole, and make()s the others. The names of parameters
// and so their layouts are known only when the network is there. What other functions make is whole at once.
//
//   nn::DeferredWeights deferred;
//   auto net = zoo::gpt(options);
//   for (const Tensor& one : net.parameters())
//     if (is_large(one)) deferred.fill(one, own_runs(one), own_piece(one));
//   deferred.make_rest();
class DeferredWeights {
 public:
  DeferredWeights();
  ~DeferredWeights();
  DeferredWeights(const DeferredWeights&) = delete;
  DeferredWeights& operator=(const DeferredWeights&) = delete;

  static DeferredWeights* innermost();  // of this thread; null: none, or paused

  // During its lifetime initial() makes memory, whatever scopes there are around.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    DeferredWeights* before_;
  };

  // Tensor without memory that begins with the numbers drawn or, where there is no draw, with what `whole` makes, which
  // takes `sites` numbers of random calls.
  Tensor defer(const Shape& shape, const std::optional<Draw>& draw, int sites, std::function<Tensor()> whole);
  // Row of a deferred matrix that begins as zeros.
  void clear_row(const Tensor& matrix, std::int64_t row);
  // A deferred tensor begins as another one of its shape would have, which is let go of.
  void begin_as(const Tensor& tensor, const Tensor& other);

  bool holds(const Tensor& tensor) const { return values_.contains(tensor.impl()); }  // deferred and not made yet
  // Gives a deferred tensor its memory, all of it, on a device, which draws the numbers itself where each is one of its
  // place; make_rest() those that are left.
  void make(const Tensor& tensor, Device device = kCpu);
  void make_rest();
  // Makes the given elements of a deferred tensor in `piece`, and lets go of it: it stays without memory. A tensor
  // without a draw is made whole meanwhile.
  void fill(const Tensor& tensor, std::span<const ElementRun> runs, const Tensor& piece);
  // Tensors that fill() has made whole.
  std::int64_t made_whole() const { return made_whole_; }

 private:
  struct Value {
    Tensor handle;
    std::optional<Draw> draw;
    Tensor key;  // of the generator, when the tensor was made
    std::int64_t site = 0;
    SitePoint point{};
    std::function<Tensor()> whole;
    std::vector<std::int64_t> zero_rows{};
  };
  const Value& value(const Tensor& tensor) const;
  static Tensor made_on(const Value& value, Device device);
  static Tensor replayed(const Value& value);
  static void write(const Value& value, std::span<const ElementRun> runs, const Tensor& piece);

  std::unordered_map<const TensorImpl*, Value> values_;
  DeferredWeights* outer_;
  std::int64_t made_whole_ = 0;
};

}  // namespace starling::nn
