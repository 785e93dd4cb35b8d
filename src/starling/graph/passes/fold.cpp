#include <cmath>
#include <cstring>

#include "starling/base/error.h"
#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/interpreter.h"

namespace starling::graph::passes {
namespace {

// Constants live as long as the program: larger results are recomputed in each run, unless their operands were larger
// still.
constexpr std::int64_t kMostBytes = 1 << 20;

bool is_creation(const Node& node) {
  return is_op(node, "full") || is_op(node, "arange") || is_op(node, "linspace") || is_op(node, "eye");
}

// Uniform value of a dense tensor, if `full` can express it: not NaN, not -0, no integer that a double rounds.
std::optional<double> filling(const Tensor& tensor) {
  const auto size = size_of(tensor.dtype());
  const auto* bytes = static_cast<const std::byte*>(tensor.raw());
  const auto count = static_cast<std::size_t>(tensor.numel());
  if (count == 0) return std::nullopt;
  if (std::memcmp(bytes, bytes + size, (count - 1) * size) != 0) return std::nullopt;
  const double value = view_of(tensor, {}, {}, 0).item();
  const bool exact = is_float(tensor.dtype()) ? !std::isnan(value) : std::abs(value) < 9007199254740992.0;
  return exact && !(value == 0 && std::signbit(value)) ? std::optional(value) : std::nullopt;
}

// Dense copy of a view: constants are dense.
Tensor dense_copy(const Tensor& tensor) {
  Tensor copy = empty(tensor.shape(), tensor.dtype());
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(copy.raw());
  const Shape& shape = tensor.shape();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at += rest % shape[d] * tensor.strides()[d];
      rest /= shape[d];
    }
    std::memcpy(to + i * size, from + at * size, static_cast<std::size_t>(size));
  }
  return copy;
}

// Evaluates a node. Empty if it fails: the error is reported when the program runs.
TensorList evaluate(const OpDef& op, const TensorList& in, const Attrs& attrs) {
  const NoGrad no_grad;
  const InterpreterScope eager(eager_interpreter());
  try {
    TensorList out = apply(op, {in.data(), in.size()}, attrs);
    for (auto& tensor : out) {
      if (!tensor.contiguous()) tensor = dense_copy(tensor);
    }
    return out;
  } catch (const Error&) {
    return {};
  }
}

class Folder {
 public:
  explicit Folder(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!foldable(id) || !(fold_uniform(id) || fold_values(id))) rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  Graph& to() { return rewriter_.to(); }

  bool known(ValueId id) { return is_op(to().maker(id), "constant") || is_creation(to().maker(id)); }

  bool foldable(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_op(node, "constant")) return node.after.empty() && graph_.value(node.out[0]).type.shape.numel() == 1;
    if (!is_pure(node) || node.out.empty() || node.device.kind != DeviceKind::cpu) return false;
    if (node.in.empty()) return is_creation(node) && !is_op(node, "full");
    if (is_op(node, "delay")) return false;  // a delay must take its time
    for (ValueId in : node.in) {
      if (!known(rewriter_.map(in)) || graph_.maker(in).device != node.device) return false;
    }
    return true;
  }

  // Elementwise ops and views of uniform values: one element is computed, whatever the shape.
  bool fold_uniform(NodeId id) {
    const Node& node = graph_.node(id);
    const bool of_elements = node.op->elementwise() || is_op(node, "cast");
    if (node.in.empty() || node.out.size() != 1 || (!of_elements && !node.op->view)) return false;
    TensorList scalars;
    for (ValueId in : node.in) {
      const auto value = uniform_value(to(), rewriter_.map(in));
      if (!value) return false;
      scalars.push_back(from_doubles({&*value, 1}, {}, graph_.value(in).type.dtype));
    }
    const TensorList out = of_elements ? evaluate(*node.op, scalars, node.attrs) : scalars;
    const auto value = out.empty() ? std::nullopt : filling(out[0]);
    if (!value) return false;
    replace_by_full(id, 0, *value);
    return true;
  }

  bool fold_values(NodeId id) {
    const Node& node = graph_.node(id);
    std::int64_t read = 0, constant = 0, made = 0;
    for (ValueId in : node.in) {
      const auto bytes = static_cast<std::int64_t>(bytes_of(graph_.value(in).type));
      read += bytes;
      if (is_op(to().maker(rewriter_.map(in)), "constant")) constant += bytes;
    }
    for (ValueId out : node.out) made += static_cast<std::int64_t>(bytes_of(graph_.value(out).type));
    if (made > std::max(kMostBytes, constant) || read - constant > kMostBytes) return false;
    TensorList in;
    for (ValueId operand : node.in) {
      in.push_back(tensor_of(rewriter_.map(operand)));
      if (!in.back().defined()) return false;
    }
    const TensorList out = is_op(node, "constant") ? TensorList{constant_of(node)} : evaluate(*node.op, in, node.attrs);
    if (out.size() != node.out.size()) return false;
    if (is_op(node, "constant") && !filling(out[0])) return false;
    for (std::size_t i = 0; i < out.size(); ++i) replace(id, i, out[i]);
    return true;
  }

  Tensor constant_of(const Node& node) { return to().constants[static_cast<std::size_t>(source_index(node))]; }

  Tensor tensor_of(ValueId id) {
    const Node& maker = to().maker(id);
    if (is_op(maker, "constant")) return constant_of(maker);
    const TensorList made = evaluate(*maker.op, {}, maker.attrs);
    return made.empty() ? Tensor() : made[0];
  }

  // Uniform values become a `full`, which other rules can look into; all else becomes a constant.
  void replace(NodeId id, std::size_t output, const Tensor& tensor) {
    if (const auto value = filling(tensor)) return replace_by_full(id, output, *value);
    name_result(id, output, to().add_constant(tensor));
  }

  void replace_by_full(NodeId id, std::size_t output, double value) {
    static const OpDef& op = find_op("full");
    const TensorType& type = graph_.value(graph_.node(id).out[output]).type;
    const NodeId made = rewriter_.emit(op, {}, op::FullAttrs{type.shape, value, type.dtype}, id);
    name_result(id, output, to().node(made).out[0]);
  }

  void name_result(NodeId id, std::size_t output, ValueId made) {
    const ValueId old = graph_.node(id).out[output];
    Node& node = to().node(to().value(made).node);
    node.device = graph_.node(id).device;
    node.scope = graph_.node(id).scope;
    to().value(made).layouts = graph_.value(old).layouts;
    rewriter_.set(old, made);
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

// prune drops nodes without readers.
Graph fold(const Graph& graph, const PassContext& context) { return prune(Folder(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_fold(PassTable& table) {
  table.add({.name = "fold", .doc = "compute what depends on constants only", .order = 600, .run = passes::fold});
}

}  // namespace starling::graph
