#include "starling/graph/passes/cross_entropy/cross_entropy_match.h"

#include <algorithm>

#include "starling/ops/api/index.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/attrs/nll_attrs.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::graph {
namespace {

using Reader = CrossEntropyMatch::Reader;

bool keeps_order(const Node& node) {
  return is_op(node, "reshape") || is_op(node, "squeeze") || is_op(node, "unsqueeze");
}

class Matcher {
 public:
  Matcher(const Graph& graph, const Uses& uses, NodeId log_softmax)
      : graph_(graph), uses_(uses), log_softmax_(graph.node(log_softmax)) {}

  std::optional<CrossEntropyMatch> run() {
    const ValueId out = log_softmax_.out[0];
    const TensorType& type = type_of(out);
    const DeviceKind kind = log_softmax_.device.kind;
    if (!usable(log_softmax_) || (kind != DeviceKind::cpu && kind != DeviceKind::cuda)) return std::nullopt;
    if ((type.dtype != DType::f32 && type.dtype != DType::f64) || type.shape.rank() < 2) return std::nullopt;
    found_.logits = log_softmax_.in[0];
    found_.classes = type.shape.back();
    if (found_.classes == 0) return std::nullopt;
    found_.rows = type.shape.numel() / found_.classes;
    if (!read(out) || found_.readers.empty() || found_.labels < 0) return std::nullopt;
    return found_;
  }

 private:
  const TensorType& type_of(ValueId id) const { return graph_.value(id).type; }
  const Node& maker(ValueId id) const { return graph_.maker(id); }
  bool usable(const Node& node) const { return is_pure(node) && node.device == log_softmax_.device; }

  // Matches every reader of the log-probabilities, also through reshapes that keep the classes last.
  bool read(ValueId value) {
    if (uses_.is_output(value)) return false;
    for (NodeId user : uses_.of(value)) {
      const Node& node = graph_.node(user);
      if (!usable(node)) return false;
      const bool reshaped = keeps_order(node) && !type_of(node.out[0]).shape.empty() &&
                            type_of(node.out[0]).shape.back() == found_.classes;
      if (reshaped ? !read(node.out[0]) : !read_one(user, value)) return false;
    }
    return true;
  }

  bool read_one(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    if (std::count(node.in.begin(), node.in.end(), value) != 1) return false;
    const bool flat = type_of(value).shape.rank() == 2;
    if (is_op(node, "label_pick")) {
      found_.readers.push_back({Reader::Kind::pick, id});
      return flat && note_labels(node.in[1], node.attrs.as<op::NllAttrs>().ignore_index);
    }
    if (is_op(node, "nll")) {
      if (has_nll_) return false;
      has_nll_ = true;
      found_.readers.push_back({Reader::Kind::nll, id, -1, node.in.size() == 3 ? node.in[2] : -1});
      return flat && note_labels(node.in[1], node.attrs.as<op::NllAttrs>().ignore_index);
    }
    if (is_op(node, "gather")) return read_gather(id, value);
    if (is_op(node, "mul")) return read_one_hot_sum(id, value);
    if (is_op(node, "log_softmax_backward")) return read_backward(id, value);
    return false;
  }

  // Checks that all readers have the same labels and the same ignored label.
  bool note_labels(ValueId labels, std::optional<std::int64_t> ignored) {
    while (keeps_order(maker(labels))) labels = maker(labels).in[0];
    const TensorType& type = type_of(labels);
    if (type.dtype != DType::i64 || type.shape.numel() != found_.rows) return false;
    const bool first = found_.labels < 0;
    if (!first && (found_.labels != labels || found_.ignored != ignored)) return false;
    found_.labels = labels;
    found_.ignored = ignored;
    return true;
  }

  bool is_last_axis(const Node& node, ValueId value) const {
    const int rank = type_of(value).shape.rank();
    return normalize_axis(node.attrs.as<op::AxisAttrs>().axis, rank, "gather") == rank - 1;
  }

  bool is_one_a_row(const Shape& index, const Shape& shape) const {
    Shape column = shape;
    column[column.rank() - 1] = 1;
    return index == column;
  }

  bool read_gather(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    if (node.in[0] != value || !is_last_axis(node, value)) return false;
    if (!is_one_a_row(type_of(node.in[1]).shape, type_of(value).shape)) return false;
    found_.readers.push_back({Reader::Kind::pick, id});
    return note_labels(node.in[1], std::nullopt);
  }

  // Labels of a one-hot operand as large as the log-probabilities, or -1.
  ValueId one_hot_labels(ValueId id) const {
    while (keeps_order(maker(id)) || is_op(maker(id), "cast")) id = maker(id).in[0];
    const Node& node = maker(id);
    if (!is_op(node, "one_hot") || node.attrs.as<op::OneHotAttrs>().classes != found_.classes) return -1;
    return node.in[0];
  }

  bool read_one_hot_sum(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    const ValueId other = node.in[node.in[0] == value ? 1 : 0];
    const ValueId labels = one_hot_labels(other);
    if (labels < 0 || type_of(other) != type_of(value)) return false;
    const NodeId reader = uses_.only(node.out[0]);
    if (reader < 0 || !is_op(graph_.node(reader), "sum") || !usable(graph_.node(reader))) return false;
    Shape kept = type_of(value).shape;
    const Shape axes = op::reduced_axes(graph_.node(reader).attrs.as<op::ReduceAttrs>().axes, kept.rank(), "sum");
    if (std::find(axes.begin(), axes.end(), kept.rank() - 1) == axes.end()) return false;
    kept[kept.rank() - 1] = 1;
    found_.readers.push_back({Reader::Kind::sum_rows, reader, -1, -1, kept});
    return note_labels(labels, std::nullopt);
  }

  // Matches an incoming gradient that is nonzero at the labels only.
  bool read_backward(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    if (node.in[1] != value || value != log_softmax_.out[0]) return false;
    ValueId from = node.in[0];
    NodeId reader = id;
    while (keeps_order(maker(from)) && uses_.only(from) == reader) {
      reader = graph_.value(from).node;
      from = maker(from).in[0];
    }
    const Node& made = maker(from);
    if (uses_.only(from) != reader || !usable(made)) return false;
    if (type_of(from).shape.empty() || type_of(from).shape.back() != found_.classes) return false;
    if (is_op(made, "label_place")) {
      found_.readers.push_back({Reader::Kind::backward, id, made.in[0]});
      return type_of(from).shape.rank() == 2 &&
             note_labels(made.in[1], made.attrs.as<op::LabelPlaceAttrs>().ignore_index);
    }
    if (is_op(made, "scatter_add")) return read_scatter(id, made);
    return is_op(made, "mul") && read_one_hot_product(id, made);
  }

  bool read_scatter(NodeId id, const Node& made) {
    const auto zero = uniform_value(graph_, made.in[0]);
    if (!zero || *zero != 0 || !is_last_axis(made, made.in[0])) return false;
    if (!is_one_a_row(type_of(made.in[1]).shape, type_of(made.in[0]).shape)) return false;
    if (type_of(made.in[2]).shape != type_of(made.in[1]).shape) return false;
    found_.readers.push_back({Reader::Kind::backward, id, made.in[2]});
    return note_labels(made.in[1], std::nullopt);
  }

  // Matches one-hot labels times a factor constant over the classes.
  bool read_one_hot_product(NodeId id, const Node& made) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
      const ValueId labels = one_hot_labels(made.in[at]);
      if (labels < 0 || type_of(made.in[at]) != type_of(made.out[0])) continue;
      ValueId rows = made.in[1 - at];
      while (is_op(maker(rows), "broadcast_to")) rows = maker(rows).in[0];
      const Shape& shape = type_of(rows).shape;
      const bool of_rows = shape.numel() == 1 || (shape.numel() == found_.rows && shape.back() == 1);
      if (!of_rows && !uniform_value(graph_, rows)) return false;
      found_.readers.push_back({Reader::Kind::backward, id, rows});
      return note_labels(labels, std::nullopt);
    }
    return false;
  }

  const Graph& graph_;
  const Uses& uses_;
  const Node& log_softmax_;
  bool has_nll_ = false;
  CrossEntropyMatch found_;
};

}  // namespace

std::optional<CrossEntropyMatch> match_cross_entropy(const Graph& graph, const Uses& uses, NodeId log_softmax) {
  return Matcher(graph, uses, log_softmax).run();
}

}  // namespace starling::graph
