#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/ops/attrs.h"
#include "starling/ops/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct OpDef;
using Types = SmallVector<TensorType, 4>;

// What inference sees of a call.
struct InferCall {
  const OpDef& op;
  std::span<const TensorType> in;
  const Attrs& attrs;
};

// What a gradient sees. Tensors that the op does not save (see OpDef::saves) have their type but no data. `grads` has
// one entry an output, undefined where nothing flowed back.
struct GradCall {
  const OpDef& op;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> grads;
  const Attrs& attrs;
  std::uint64_t needed;  // bit i: the gradient of input i is wanted; beyond the 64th all are
  bool needs(int i) const { return i >= 64 || ((needed >> i) & 1); }
};

// The global types of a call and where its inputs lie along one mesh axis.
struct ShardCall {
  const OpDef& op;
  std::span<const TensorType> in;
  std::span<const TensorType> out;
  const Attrs& attrs;
  std::span<const Placement> placed;
};
// Where the inputs must lie instead, and where the outputs then are.
struct ShardRule {
  Placements in;
  Placements out;
};

// A view of the first input's memory, in elements; the op moves no data.
struct View {
  Shape shape{};
  Shape strides{};
  std::int64_t offset = 0;
};
struct ViewCall {
  const Shape& shape;
  const Shape& strides;
  const Attrs& attrs;
};

// How to draw one operand of a sample call.
struct CaseInput {
  Shape shape{};
  double low = -2;
  double high = 2;
  DType dtype = DType::f64;  // floats are drawn as f64 by the gradient check and cast down for others
  bool distinct = false;     // no two values closer than 1e-2 of the range (max, relu at 0, comparisons)
  double diagonal = 0;       // times row + 1, added along the diagonal of every matrix: it is then well conditioned
  bool ascending = false;    // sorted, the first being `low` (offsets)
};
struct OpCase {
  std::vector<CaseInput> in;
  Attrs attrs{};
};

enum Saves : std::uint8_t { kSavesNothing = 0, kSavesInputs = 1, kSavesOutputs = 2, kSavesAll = 3 };

// An op is a value: its name, what it means for shapes, for gradients, for pieces. Kernels are registered beside it, by
// name. Everything else (checks, documentation, bindings, the text form of graphs) follows from these fields.
struct OpDef {
  std::string name;
  std::string doc = {};
  int version = 1;
  int id = -1;  // dense, given by the registry

  std::vector<std::string> inputs = {};  // "bias?" may be missing, "xs..." stands for any number
  std::vector<std::string> outputs = {"y"};
  const AttrType* attrs = &attr_type<NoAttrs>();

  std::function<Types(const InferCall&)> infer = nullptr;         // throws "[name] expected …, got …"
  std::function<TensorList(const GradCall&)> gradient = nullptr;  // empty: not differentiable
  std::function<TensorList(std::span<const Tensor>, const Attrs&)> decompose =
      nullptr;                                                         // fused ops: the same in simpler ones
  std::function<ShardRule(const ShardCall&)> shard = nullptr;          // empty: works on replicated operands only
  std::function<std::optional<View>(const ViewCall&)> view = nullptr;  // view ops; nullopt: these strides need a copy
  std::function<std::vector<OpCase>()> cases = nullptr;                // sample calls for every generated check

  // Elementwise ops: the meaning of one element, in f64. It is the reference kernel. Attributes, which must all be
  // numbers, follow the operands in their order. `integer` is the same on integers, where doubles would be inexact.
  double (*scalar)(const double* in) = nullptr;
  std::int64_t (*integer)(const std::int64_t* in) = nullptr;

  // Ops whose result has a shape that depends on values: the output types, from operands on the CPU in dense memory.
  // `infer` then gives the largest types possible. They run eagerly; tracers refuse them by name.
  std::function<Types(std::span<const Tensor>, const Attrs&)> measure = nullptr;

  Saves saves = kSavesAll;  // what the gradient reads
  bool stateful = false;    // has effects beyond its outputs: never merged, dropped or moved across its like
  bool random = false;
  bool commutative = false;
  bool comm = false;   // talks to other ranks
  bool plain = false;  // the reference kernel is meant to be the only one on the CPU: work that needs no speed
  int inplace = -1;    // output i may overwrite input inplace + i (-1: none)
  bool elementwise() const { return scalar != nullptr; }
  bool variadic() const { return !inputs.empty() && inputs.back().ends_with("..."); }
  int min_inputs() const;
  int max_inputs() const;  // -1: any number
};

// The attributes of an elementwise op as numbers, in their order: what `scalar` and vector functions are given.
using Numbers = SmallVector<double, 4>;
Numbers numbers_of(const Attrs& attrs);

}  // namespace starling
