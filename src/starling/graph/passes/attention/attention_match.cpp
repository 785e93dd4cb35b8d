#include "starling/graph/passes/attention/attention_match.h"

#include <algorithm>
#include <cmath>

#include "starling/ops/api/masked.h"
#include "starling/ops/def/attrs/masked.h"

namespace starling::graph {
namespace {

// Numbers up to this count as "hidden" masks: no real score comes near it.
constexpr double kHidden = -1e9;

// True if a constant mask hides exactly the keys after the query's position.
bool is_causal(const Tensor& mask, bool hides) {
  const Shape& shape = mask.shape();
  const int rank = shape.rank();
  if (rank < 2 || mask.device().kind != DeviceKind::cpu) return false;
  const std::int64_t queries = shape[rank - 2], keys = shape[rank - 1];
  if (shape.numel() != queries * keys) return false;
  const bool boolean = mask.dtype() == DType::boolean;
  const auto values = mask.to_vector();
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const double value = values[static_cast<std::size_t>(i * keys + j)];
      const bool seen = boolean ? (value != 0) != hides : value == 0;
      if (seen != (j <= i) || (!boolean && !seen && !(value <= kHidden))) return false;
    }
  }
  return true;
}

// Op between the scores and the softmax.
struct Step {
  enum class Kind : std::uint8_t { scale, add, hide } kind;
  ValueId mask = -1;
  bool hides = false;  // bool mask: true where the score is hidden
  double number = 1;   // the scale, or the value of hidden scores
};

class Matcher {
 public:
  Matcher(const Graph& graph, const Uses& uses, NodeId softmax) : graph_(graph), uses_(uses), softmax_(softmax) {}

  std::optional<AttentionMatch> run() {
    const Node& softmax = graph_.node(softmax_);
    const TensorType& p = type(softmax.out[0]);
    if (!is_op(softmax, "softmax") || !usable(softmax) || softmax.device.kind != DeviceKind::cpu) return std::nullopt;
    if (p.dtype != DType::f32 || p.shape.rank() < 2 || uses_.is_output(softmax.out[0])) return std::nullopt;
    const bool matches = climb(softmax.in[0], softmax_) && read_steps() && read_products() && read_gradient();
    return matches ? std::optional(found_) : std::nullopt;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  const Node& maker(ValueId id) const { return graph_.maker(id); }
  bool usable(const Node& n) const { return is_pure(n) && n.device == graph_.node(softmax_).device; }
  bool only_reader(ValueId id, NodeId reader) const { return uses_.only(id) == reader; }

  // Walks from the softmax up to the product of the scores; every value on the way has one reader.
  bool climb(ValueId at, NodeId reader) {
    const Node& node = maker(at);
    if (!usable(node) || !only_reader(at, reader)) return false;
    if (is_op(node, "matmul")) {
      found_.scores = graph_.value(at).node;
      return true;
    }
    const auto through = [&](ValueId next, const Step& step) {
      if (next == at || type(next) != type(at)) return false;
      steps_.push_back(step);
      if (climb(next, graph_.value(at).node)) return true;
      steps_.pop_back();
      return false;
    };
    if (is_op(node, "mul") || is_op(node, "div")) return climb_scale(node, through);
    if (is_op(node, "add"))
      return through(node.in[0], {Step::Kind::add, node.in[1]}) || through(node.in[1], {Step::Kind::add, node.in[0]});
    return climb_hiding(node, through);
  }

  template <class F>
  bool climb_scale(const Node& node, F&& through) {
    if (const auto c = uniform_value(graph_, node.in[1]))
      return through(node.in[0], {Step::Kind::scale, -1, false, is_op(node, "div") ? 1 / *c : *c});
    const auto c = uniform_value(graph_, node.in[0]);
    return c && is_op(node, "mul") && through(node.in[1], {Step::Kind::scale, -1, false, *c});
  }

  template <class F>
  bool climb_hiding(const Node& node, F&& through) {
    if (is_op(node, "masked_fill"))
      return through(node.in[1], {Step::Kind::hide, node.in[0], true, node.attrs.as<op::MaskedFillAttrs>().value});
    if (!is_op(node, "where")) return false;
    if (const auto fill = uniform_value(graph_, node.in[2]))
      return through(node.in[1], {Step::Kind::hide, node.in[0], false, *fill});
    const auto fill = uniform_value(graph_, node.in[1]);
    return fill && through(node.in[2], {Step::Kind::hide, node.in[0], true, *fill});
  }

  // The scale comes before the masks; at most one mask is causal, and one more is an operand.
  bool read_steps() {
    double scale = 1;
    bool scaled = false;
    for (const auto& step : steps_) {
      if (step.kind == Step::Kind::scale) {
        scaled = true;
        scale *= step.number;
      } else if (scaled || !read_mask(step)) {
        return false;
      }
    }
    found_.attrs.scale = scale;
    return std::abs(scale) <= 1e6 && std::abs(scale) > 1e-30;
  }

  bool read_mask(const Step& step) {
    if (step.kind == Step::Kind::hide && !(step.number <= kHidden)) return false;
    const Node& source = maker(step.mask);
    const Shape &mask = type(step.mask).shape, &scores = type(graph_.node(softmax_).out[0]).shape;
    const bool whole = mask.rank() >= 2 && mask[mask.rank() - 1] == scores[scores.rank() - 1] &&
                       mask[mask.rank() - 2] == scores[scores.rank() - 2];
    if (whole && is_op(source, "constant") &&
        is_causal(graph_.constants[static_cast<std::size_t>(source_index(source))], step.hides)) {
      found_.attrs.causal = true;
      return true;
    }
    // A row that sees no key: with -inf it is undefined, but with a finite number all keys count equally.
    if (step.kind == Step::Kind::hide && std::isfinite(step.number)) return false;
    if (found_.mask >= 0 || type(step.mask).shape.rank() > type(graph_.node(softmax_).out[0]).shape.rank())
      return false;
    found_.mask = step.mask;
    found_.mask_hides = step.hides;
    return true;
  }

  // Splits the readers of a value, also through transposes, into products and others.
  void readers(ValueId id, std::vector<NodeId>& products, std::vector<NodeId>& others) const {
    for (NodeId user : uses_.of(id)) {
      const Node& node = graph_.node(user);
      if (swaps_last_two(graph_, node) && usable(node) && !uses_.is_output(node.out[0]))
        readers(node.out[0], products, others);
      else if (is_op(node, "matmul") && usable(node))
        products.push_back(user);
      else
        others.push_back(user);
    }
  }

  bool same_leading(ValueId id) const {
    const Shape& a = type(graph_.node(found_.scores).out[0]).shape;
    const Shape& b = type(id).shape;
    if (a.rank() != b.rank()) return false;
    return std::equal(a.begin(), a.end() - 2, b.begin());
  }

  // Matches the multiplicands of the scores, the product with v, and its gradient for v.
  bool read_products() {
    const Multiplicands scores = multiplicands_of(graph_, graph_.node(found_.scores));
    found_.q = scores.a;
    found_.k = scores.b.flipped();
    const ValueId p = graph_.node(softmax_).out[0];
    std::vector<NodeId> products, others;
    readers(p, products, others);
    for (NodeId id : products) {
      const auto [a, b] = multiplicands_of(graph_, graph_.node(id));
      const ValueId out = graph_.node(id).out[0];
      if (a == Multiplicand{p, false} && b.value != p) {
        if (found_.y >= 0) return false;
        found_.y = out;
        found_.v = b;
      } else if (a == Multiplicand{p, true} && b.value != p) {
        if (!note_dy(b)) return false;
        found_.gradients.push_back({out, 2, false});
      } else if (b == Multiplicand{p, false} && a.value != p) {
        if (!note_dy(a.flipped())) return false;
        found_.gradients.push_back({out, 2, true});
      } else {
        return false;
      }
    }
    if (found_.y < 0 || others.size() > 1) return false;
    if (!same_leading(found_.q.value) || !same_leading(found_.k.value) || !same_leading(found_.v.value)) return false;
    for (const auto& gradient : found_.gradients) {
      if (!same_leading(gradient.value)) return false;
    }
    softmax_backward_ = others.empty() ? -1 : others[0];
    return true;
  }

  bool note_dy(const Multiplicand& dy) {
    if (found_.dy.value >= 0 && !(found_.dy == dy)) return false;
    found_.dy = dy;
    return same_leading(dy.value);
  }

  // Matches the gradient of the scores, from the softmax down to the products for q and k.
  bool read_gradient() {
    if (softmax_backward_ < 0) return true;
    const Node& back = graph_.node(softmax_backward_);
    const ValueId p = graph_.node(softmax_).out[0];
    if (!is_op(back, "softmax_backward") || !usable(back) || back.in[1] != p || back.in[0] == p) return false;
    const Node& dp = maker(back.in[0]);
    const auto [a, b] = multiplicands_of(graph_, dp);
    if (!is_op(dp, "matmul") || !usable(dp) || !only_reader(back.in[0], softmax_backward_)) return false;
    if (!(b == found_.v.flipped()) || !note_dy(a)) return false;
    found_.backward_at = graph_.value(back.in[0]).node;
    ValueId at = back.out[0];
    for (const auto& step : steps_) {
      if (step.kind == Step::Kind::hide && !descend_hiding(step, at)) return false;
    }
    return descend_scales(at) && read_multiplicand_gradients(at);
  }

  bool descend_hiding(const Step& step, ValueId& at) const {
    const NodeId reader = uses_.only(at);
    if (reader < 0 || !usable(graph_.node(reader))) return false;
    const Node& node = graph_.node(reader);
    if (node.in.empty() || node.in[0] != step.mask) return false;
    const bool filled = is_op(node, "masked_fill") && step.hides && node.attrs.as<op::MaskedFillAttrs>().value == 0;
    bool chosen = false;
    if (is_op(node, "where")) {
      const std::size_t kept = step.hides ? 2 : 1;
      const auto none = uniform_value(graph_, node.in[3 - kept]);
      chosen = node.in[kept] == at && none && *none == 0;
    }
    if (!filled && !chosen) return false;
    at = node.out[0];
    return true;
  }

  bool descend_scales(ValueId& at) const {
    double left = found_.attrs.scale;
    while (std::abs(left - 1) > 1e-6) {
      const NodeId reader = uses_.only(at);
      if (reader < 0 || !usable(graph_.node(reader))) return false;
      const Node& node = graph_.node(reader);
      const bool is_mul = is_op(node, "mul"), is_div = is_op(node, "div") && node.in[0] == at;
      if (!is_mul && !is_div) return false;
      const auto number = uniform_value(graph_, node.in[node.in[0] == at ? 1 : 0]);
      if (!number || *number == 0 || type(node.out[0]) != type(at)) return false;
      left = is_mul ? left / *number : left * *number;
      at = node.out[0];
    }
    return true;
  }

  // dq = ds·k and dk = dsᵀ·q, or the transposes of both.
  bool read_multiplicand_gradients(ValueId ds) {
    std::vector<NodeId> products, others;
    readers(ds, products, others);
    if (!others.empty() || uses_.is_output(ds)) return false;
    for (NodeId id : products) {
      const auto [a, b] = multiplicands_of(graph_, graph_.node(id));
      const ValueId out = graph_.node(id).out[0];
      if (!same_leading(out)) return false;
      if (a == Multiplicand{ds, false} && b == found_.k)
        found_.gradients.push_back({out, 0, false});
      else if (b == Multiplicand{ds, true} && a == found_.k.flipped())
        found_.gradients.push_back({out, 0, true});
      else if (a == Multiplicand{ds, true} && b == found_.q)
        found_.gradients.push_back({out, 1, false});
      else if (b == Multiplicand{ds, false} && a == found_.q.flipped())
        found_.gradients.push_back({out, 1, true});
      else
        return false;
    }
    return true;
  }

  const Graph& graph_;
  const Uses& uses_;
  NodeId softmax_;
  NodeId softmax_backward_ = -1;
  std::vector<Step> steps_;  // from the softmax to the scores
  AttentionMatch found_;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, NodeId softmax) {
  return Matcher(graph, uses, softmax).run();
}

}  // namespace starling::graph
