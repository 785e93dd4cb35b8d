#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct OpDef;
using Types = SmallVector<TensorType, 4>;

// Arguments of type inference.
struct InferCall {
  const OpDef& op;
  std::span<const TensorType> in;
  const Attrs& attrs;
};

// Arguments of a gradient function. Tensors that the op does not save (see OpDef::saves) have a type but no data.
// `grads` has one entry per output, undefined where nothing flowed back.
struct GradCall {
  const OpDef& op;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> grads;
  const Attrs& attrs;
  std::uint64_t needed;  // bit i: the gradient of input i is wanted; inputs from 64 on always count as wanted
  bool needs(int i) const { return i >= 64 || ((needed >> i) & 1); }
};

// Global types of a call, and the layouts of its inputs along one mesh axis.
struct ShardCall {
  const OpDef& op;
  std::span<const TensorType> in;
  std::span<const TensorType> out;
  const Attrs& attrs;
  std::span<const Layout> layouts;
};
// Layouts that the inputs must have, and the resulting layouts of the outputs.
struct ShardRule {
  Layouts in;
  Layouts out;
  // True if the parts of the op (OpDef::decompose) take these layouts better than the op itself does: then the layouts
  // above only say what they would cost it.
  bool unfuse = false;
};

// View of the first input's memory, in elements; the op moves no data.
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

// Types and attributes of a call whose cost is estimated.
struct CostCall {
  const OpDef& op;
  std::span<const TensorType> in;
  std::span<const TensorType> out;
  const Attrs& attrs;
};
// How the cost of a call follows from it; costs.h has the common rules. Without `flops` an elementwise op counts one
// operation per element, a view none, a fused op what its decomposition counts; other ops must have a rule.
struct CostRule {
  std::function<double(const CostCall&)> flops = nullptr;  // a multiply-add counts 2, every other operation 1
  int gathers = -1;   // operand of which only as much is read as the result has (the table of an embedding); -1: none
  bool free = false;  // no arithmetic and no traffic
};

// Precision of the floating-point operands under mixed precision.
enum class Width : std::uint8_t {
  by_trait,  // as_given for elementwise ops and views; other ops must say
  narrow,    // 16 bits: a product, which gains speed by it
  as_given,  // the widest of the operands' dtypes
  wide,      // f32: sums, or results that easily exceed the range or the digits of 16 bits
};

// Distribution of one operand of a sample call.
struct CaseInput {
  Shape shape{};
  double low = -2;
  double high = 2;
  DType dtype = DType::f64;  // floats are drawn as f64 for the gradient check and cast for other dtypes
  bool distinct = false;     // no two values closer than 1e-2 of the range (for max, relu at 0, comparisons)
  double diagonal = 0;       // times row + 1, added to the diagonal of every matrix to make it well conditioned
  bool ascending = false;    // sorted, starting with `low` (offsets)
};
struct OpCase {
  std::vector<CaseInput> in;
  Attrs attrs{};
};

enum Saves : std::uint8_t { kSavesNothing = 0, kSavesInputs = 1, kSavesOutputs = 2, kSavesAll = 3 };

// Definition of an op as data: its name, type inference, gradient and sharding. Kernels are registered separately, by
// name. Everything else (checks, documentation, bindings, the text form of graphs) follows from these fields.
struct OpDef {
  std::string name;
  std::string doc = {};
  int version = 1;
  int id = -1;  // dense index, set by the registry

  std::vector<std::string> inputs = {};  // "bias?" is optional, "xs..." is any number
  std::vector<std::string> outputs = {"y"};
  const AttrType* attrs = &attr_type<op::NoAttrs>();

  std::function<Types(const InferCall&)> infer = nullptr;         // throws "[name] expected …, got …"
  std::function<TensorList(const GradCall&)> gradient = nullptr;  // null: not differentiable
  std::function<TensorList(std::span<const Tensor>, const Attrs&)> decompose =
      nullptr;                                                         // fused ops: the same in simpler ops
  std::function<ShardRule(const ShardCall&)> shard = nullptr;          // null: replicated operands only
  std::function<std::optional<View>(const ViewCall&)> view = nullptr;  // view ops; nullopt: these strides need a copy
  std::function<std::vector<OpCase>()> cases = nullptr;                // sample calls for generated checks

  // Elementwise ops: value of one element in f64, used as the reference kernel. Attributes, which must all be numbers,
  // follow the operands in order. `integer` is the same on integers, where doubles would be inexact.
  double (*scalar)(const double* in) = nullptr;
  std::int64_t (*integer)(const std::int64_t* in) = nullptr;

  // Ops with data-dependent result shapes: output types from dense operands on the CPU; `infer` then returns the
  // largest possible types. They run eagerly; tracers refuse them by name.
  std::function<Types(std::span<const Tensor>, const Attrs&)> measure = nullptr;

  Saves saves = kSavesAll;  // tensors that the gradient reads
  bool stateful = false;    // has effects beyond its outputs: never merged, dropped or reordered among themselves
  bool random = false;
  bool commutative = false;
  bool comm = false;   // communicates with other ranks
  bool plain = false;  // the reference kernel is the only one on the CPU: speed does not matter
  int inplace = -1;    // output i may overwrite input inplace + i; -1: none
  CostRule cost = {};
  Width precision = Width::by_trait;
  bool in_epilogue = false;     // elementwise op that the epilogue of a linear map computes rather than fusion
  bool broadcasts = false;      // operands may be read before a broadcast to the result's shape
  bool by_index = false;        // elements along a dimension are treated alike, or summed, wherever they lie in it
  bool needs_elements = false;  // refuses an operand without any, where other ops give nothing or zeros
  bool elementwise() const { return scalar != nullptr; }
  bool has_cost() const { return cost.flops || cost.free || elementwise() || view || decompose; }
  Width width() const;  // `precision`, or what the traits give; by_trait where they give nothing
  bool variadic() const { return !inputs.empty() && inputs.back().ends_with("..."); }
  int min_inputs() const;
  int max_inputs() const;  // -1: any number
};

// Attributes of an elementwise op as numbers, in order, as passed to `scalar` and vector functions.
using Numbers = SmallVector<double, 4>;
Numbers numbers_of(const Attrs& attrs);

}  // namespace starling
