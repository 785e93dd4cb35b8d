// One weird trick: what ranks gather of a batch, for layers of which each has a part, in rounds.
#include "starling/graph/passes/partition/rounds.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/slice.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// By value: made from the arguments, not from variables and constants alone.
std::vector<bool> made_from_arguments(const Graph& graph) {
  std::vector<bool> made(graph.values().size());
  for (const Node& node : graph.nodes()) {
    const bool any = is_op(node, "input") ||
                     std::any_of(node.in.begin(), node.in.end(), [&](ValueId in) { return bool(made[at(in)]); });
    for (ValueId out : node.out) made[at(out)] = any;
  }
  return made;
}

// By node: the last round of those that it needs; -1: none. Rounds are those of the exchanges that begin them. Reads
// and assignments of a variable keep their order, and so do effects.
std::vector<int> rounds_of(const Graph& graph, const std::vector<Partitioner::RoundEnds>& rounds) {
  std::vector<int> round(at(graph.size()), -1);
  for (std::size_t k = 0; k < rounds.size(); ++k) {
    for (NodeId id : rounds[k].begins) round[at(id)] = static_cast<int>(k);
  }
  std::map<std::int64_t, int> touched;  // by variable: the latest round of those that read or assign it so far
  int effects = -1;
  const auto follow = [](int& own, int& last) { own = last = std::max(own, last); };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    int& own = round[at(id)];
    for (ValueId in : node.in) own = std::max(own, round[at(graph.value(in).node)]);
    for (NodeId before : node.after) own = std::max(own, round[at(before)]);
    if (is_op(node, "variable") || is_op(node, "assign"))
      follow(own, touched.try_emplace(source_index(node), -1).first->second);
    if (has_effect(node)) follow(own, effects);
  }
  return round;
}

}  // namespace

Graph in_rounds(const Graph& cut, const PassContext& context, const std::string& rounds) {
  if (rounds.empty() || context.world == 1) return cut;
  check(context.shards == 0, "[rounds] expected a program without logical shards, got {}", context.shards);
  Partitioner parts(cut,
                    {.parts = context.world,
                     .first = 0,
                     .count = context.world,
                     .ordered = true,
                     .group = Symbol(context.group),
                     .rounds = rounds,
                     .rank = context.rank},
                    {});
  Graph made = parts.run();
  const std::vector<int> needed = rounds_of(made, parts.rounds());
  // Two rounds are under way at a time: one is exchanged while the other is computed. An end of layers that need later
  // rounds of layers before them is not waited for.
  for (std::size_t k = 2; k < parts.rounds().size(); ++k) {
    for (NodeId begin : parts.rounds()[k].begins) {
      for (NodeId end : parts.rounds()[k - 2].ends) {
        if (needed[at(end)] < static_cast<int>(k)) made.node(begin).after.push_back(end);
      }
    }
  }
  std::vector<NodeId> order(at(made.size()));
  std::iota(order.begin(), order.end(), 0);
  // Exchanges that begin a round come before those that end the one before.
  std::vector<int> round = needed;
  for (std::size_t k = 0; k < parts.rounds().size(); ++k) {
    for (NodeId begin : parts.rounds()[k].begins) {
      int& own = round[at(begin)];
      own = static_cast<int>(k) - 1;
      for (ValueId in : made.node(begin).in) own = std::max(own, needed[at(made.value(in).node)]);
      for (NodeId before : made.node(begin).after) own = std::max(own, needed[at(before)]);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return round[at(a)] < round[at(b)]; });
  Rewriter rewriter(made);
  for (NodeId id : order) rewriter.copy(id);
  return rewriter.finish();
}

// Layouts of the given program are along the axis that it was cut along; in rounds values have others.
void Partitioner::begin_rounds() {
  forget_marks();
  of_batch_ = made_from_arguments(global_);
  round_ends_.resize(at(mesh_.parts));
}

void Partitioner::restore_layouts() {
  Graph& to = rewriter_.to();
  for (ValueId id = 0; id < static_cast<ValueId>(to.values().size()); ++id) to.value(id).layouts = {};
  for (ValueId id = 0; id < static_cast<ValueId>(marked_.size()); ++id) {
    if (pieces(id).size() == 1) to.value(pieces(id)[0]).layouts = marked_[at(id)];
  }
}

void Partitioner::round_node(NodeId id) {
  const Node& node = global_.node(id);
  if (enter_rounds(id) || leave_rounds(id) || reshape_rows(id)) return;
  const auto in_pieces = [&](ValueId in) { return !layout_of(in).is_replicate(); };
  if (std::none_of(node.in.begin(), node.in.end(), in_pieces)) {
    ShardRule whole;
    whole.in.resize(node.in.size());
    whole.out.resize(node.out.size());
    return distribute(id, whole);
  }
  const ShardRule rule = node.op->comm ? across_rounds(node) : rule_of(id);
  if (activate_sum(id, rule) || draw_in_blocks(id, rule)) return;
  distribute(id, rule, round_blocks(node, rule));
}

// A gather of the batch's rows from all ranks of the group: a round has those of one of them, or a share of each.
bool Partitioner::enter_rounds(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "all_gather") || comm_group(node) != mesh_.group) return false;
  const Layouts& marked = marked_[at(node.in[0])];
  const bool rows = !marked.empty() && marked[0].is_split(0) && of_batch_[at(node.in[0])];
  const std::int64_t size = shape_of(node.out[0])[0], parts = mesh_.parts, each = size / parts;
  const bool shares = mesh_.rounds == "shares";
  if (!rows || layout_of(node.in[0]) != Layout::replicate() || size == 0 || size % parts != 0) return false;
  if (shares && each % parts != 0) return false;
  const op::PiecesAttrs& all = node.attrs.as<op::PiecesAttrs>();
  const ValueId own = pieces(node.in[0])[0];
  for (std::int64_t k = 0; k < parts; ++k) {
    const std::int64_t share = each / parts;
    const Symbol label(fmt::format("{}, round {}", all.name.str(), k));
    ValueId made = -1;
    if (shares) {
      const ValueId part =
          emit("slice", {own}, op::SliceAttrs{.axis = 0, .begin = k * share, .end = (k + 1) * share}, id);
      op::PiecesAttrs some = all;
      some.rows = each, some.name = label;
      made = emit("all_gather", {part}, some, id);
    } else {
      made = emit("broadcast", {own}, op::RootAttrs{.root = k, .rank = mesh_.rank, .name = label, .group = mesh_.group},
                  id);
    }
    round_ends_[at(k)].begins.push_back(rewriter_.to().value(made).node);
    pieces(node.out[0]).push_back(made);
  }
  rewriter_.stands_for(id, rewriter_.to().value(pieces(node.out[0])[0]).node);
  layout_of(node.out[0]) = Layout::split(0);
  blocks(node.out[0]) = shares ? parts : 0;
  return true;
}

// A scatter of sums to the owners of the rows: in every round to those whose rows it has.
bool Partitioner::leave_rounds(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reduce_scatter") || comm_group(node) != mesh_.group || !layout_of(node.in[0]).is_split(0))
    return false;
  const op::PiecesAttrs& all = node.attrs.as<op::PiecesAttrs>();
  const bool shares = blocks(node.in[0]) > 0;
  Pieces own;
  for (std::int64_t k = 0; k < mesh_.parts; ++k) {
    const ValueId term = pieces(node.in[0])[at(k)];
    const Symbol label(fmt::format("{}, round {}", all.name.str(), k));
    op::PiecesAttrs some = all;
    some.rows = rewriter_.to().value(term).type.shape[0], some.name = label;
    const ValueId made =
        shares ? emit("reduce_scatter", {term}, some, id)
               : emit("reduce_to_root", {term},
                      op::RootAttrs{.root = k, .rank = mesh_.rank, .name = label, .group = mesh_.group}, id);
    round_ends_[at(k)].ends.push_back(rewriter_.to().value(made).node);
    own.push_back(made);
  }
  ValueId result = own[0];
  if (shares)
    result =
        rewriter_.to().node(rewriter_.emit(find_op("concat"), {own.data(), own.size()}, op::AxisAttrs{0}, id)).out[0];
  else
    result = summed(own, ReduceOp::sum, id)[0];  // zeros where another rank was the root
  rewriter_.stands_for(id, rewriter_.to().value(result).node);
  pieces(node.out[0]) = {result};
  return true;
}

// Rows of a round lie in blocks, one of each rank, with shares. A rule that keeps rows split treats each by itself or
// sums over all, so the order does not matter; only noise follows their place in the whole.
std::int64_t Partitioner::round_blocks(const Node& node, const ShardRule& rule) const {
  std::int64_t found = 0;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (rule.in[i].is_split() && layouts_[at(node.in[i])] == rule.in[i]) found = std::max(found, blocks(node.in[i]));
  }
  return found;
}

// Rows that stay the first dimension of as many.
bool Partitioner::reshape_rows(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || !layout_of(node.in[0]).is_split(0)) return false;
  if (shape_of(node.in[0])[0] != shape_of(node.out[0])[0]) return false;
  distribute(id, {{Layout::split(0)}, {Layout::split(0)}}, blocks(node.in[0]));
  return true;
}

// Noise of rows in blocks: drawn for each block at its place in the whole.
bool Partitioner::draw_in_blocks(NodeId id, const ShardRule& rule) {
  const Node& node = global_.node(id);
  const std::int64_t count = round_blocks(node, rule);
  if (node.attrs.find("offset") == nullptr || count == 0 || !rule.out[0].is_split()) return false;
  const int dim = rule.out[0].dim;
  const std::int64_t block = shape_of(node.out[0])[dim] / count, share = block / mesh_.parts;
  std::vector<Pieces> in;
  for (std::size_t i = 0; i < node.in.size(); ++i)
    in.push_back(as(node.in[i], rule.in[i], rule.in[i].is_split() ? count : 0));
  for (std::int64_t k = 0; k < mesh_.parts; ++k) {
    std::vector<Pieces> parts(node.out.size());
    for (std::int64_t b = 0; b < count; ++b) {
      SmallVector<ValueId, 4> operands;
      for (std::size_t i = 0; i < node.in.size(); ++i) {
        const ValueId piece = in[i][in[i].size() == 1 ? 0 : at(k)];
        const op::SliceAttrs range{.axis = rule.in[i].dim, .begin = b * share, .end = (b + 1) * share};
        operands.push_back(rule.in[i].is_split() ? emit("slice", {piece}, range, id) : piece);
      }
      Attrs attrs = node.attrs;
      const Shape& whole = shape_of(node.out[0]);
      if (const auto* field = attrs.find("shape")) attrs.get<Shape>(*field)[dim] = share;
      Shape &global = attrs.get<Shape>(*attrs.find("global")), &offset = attrs.get<Shape>(*attrs.find("offset"));
      if (global.empty()) {
        global = whole;
        offset = Shape::filled(whole.rank(), 0);
      }
      offset[dim] += b * block + k * share;
      const NodeId made = rewriter_.emit(*node.op, {operands.data(), operands.size()}, attrs, id);
      rewriter_.stands_for(id, made);
      for (std::size_t i = 0; i < node.out.size(); ++i) parts[i].push_back(rewriter_.to().node(made).out[i]);
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const NodeId joined =
          rewriter_.emit(find_op("concat"), {parts[i].data(), parts[i].size()}, op::AxisAttrs{dim}, id);
      pieces(node.out[i]).push_back(rewriter_.to().node(joined).out[0]);
    }
  }
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    layout_of(node.out[i]) = rule.out[i];
    blocks(node.out[i]) = count;
  }
  return true;
}

// Terms of all rounds, added in their order.
Partitioner::Pieces Partitioner::summed(const Pieces& terms, ReduceOp reduce, NodeId like) {
  const std::string_view by = reduce == ReduceOp::max       ? "maximum"
                              : reduce == ReduceOp::min     ? "minimum"
                              : reduce == ReduceOp::product ? "mul"
                                                            : "add";
  ValueId all = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) all = emit(by, {all, terms[k]}, {}, like);
  return {all};
}

// Rows of all rounds in the order of the batch.
Partitioner::Pieces Partitioner::joined_rounds(ValueId value, NodeId like) {
  const int dim = layout_of(value).dim;
  const std::int64_t in_blocks = blocks(value);
  Pieces first;
  for (ValueId piece : pieces(value)) first.push_back(with_first(piece, dim, in_blocks, like));
  const NodeId all = rewriter_.emit(find_op("concat"), {first.data(), first.size()}, op::AxisAttrs{0}, like);
  return {with_first_back(rewriter_.to().node(all).out[0], shape_of(value), dim, in_blocks, like)};
}

}  // namespace starling::graph
