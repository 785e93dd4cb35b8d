#include "starling/graph/partitioner.h"

#include <algorithm>
#include <limits>

#include "starling/base/error.h"
#include "starling/graph/control_types.h"
#include "starling/graph/splice.h"
#include "starling/ops/comm.h"
#include "starling/ops/control.h"
#include "starling/ops/creation.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"
#include "starling/ops/shape_ops.h"

namespace starling {
namespace {

// Ops that are only known in pieces through what they are made of.
Graph decomposed(const Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!node.op->decompose || node.op->shard) {
      rewriter.copy(id);
      continue;
    }
    Types types;
    for (ValueId in : node.in) types.push_back(graph.value(in).type);
    const auto in = rewriter.map({node.in.data(), node.in.size()});
    const auto out =
        splice(rewriter, decomposition(*node.op, {types.data(), types.size()}, node.attrs), {in.data(), in.size()}, id);
    for (std::size_t i = 0; i < out.size(); ++i) rewriter.set(node.out[i], out[i]);
  }
  return rewriter.finish();
}

Types types_at(const Graph& graph, std::span<const ValueId> ids) {
  Types types;
  for (ValueId id : ids) types.push_back(graph.value(id).type);
  return types;
}

// What a body does with a part of the rows nobody knows; terms of a sum are added up before.
void expect_whole(const Node& node, const Placements& placed) {
  for (std::size_t i = 0; i < placed.size(); ++i) {
    check(!placed[i].is_split(),
          "[partition] expected operands of {}{} to be whole on every rank, got operand {} as {}", node.op->name,
          node.scope.empty() ? "" : " in " + node.scope.str(), i, to_string(placed[i]));
  }
}

bool acts(const Graph& graph) {
  const auto outside = [&](const Node& node) { return acts_outside(graph, node); };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), outside);
}

// Files are written by the first rank: what would write them here only says how much it would have written.
void stop_writing(Graph& graph) {
  static const OpDef& elsewhere = find_op("saved_elsewhere");
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (is_op(graph.node(id), "save")) graph.node(id).op = &elsewhere;
  }
  for (auto& body : graph.bodies) {
    if (!acts(*body)) continue;
    auto quiet = std::make_shared<Graph>(*body);
    stop_writing(*quiet);
    body = std::move(quiet);
  }
}

}  // namespace

Partitioner::Partitioner(const Graph& global, Mesh mesh, std::vector<Placement> inputs)
    : global_(decomposed(global)), mesh_(mesh), inputs_(std::move(inputs)), rewriter_(global_) {
  placed_.resize(global_.values().size());
  pieces_.resize(global_.values().size());
  whole_.resize(global_.values().size());
  rows_.resize(global_.values().size(), mesh_.parts);
}

Graph Partitioner::run() {
  for (NodeId id = 0; id < global_.size(); ++id) node(id);
  outputs();
  for (ValueId id : global_.outputs) rewriter_.to().outputs.push_back(pieces(id)[0]);
  if (mesh_.first > 0) stop_writing(rewriter_.to());
  return std::move(rewriter_.to());
}

void Partitioner::node(NodeId id) {
  const Node& node = global_.node(id);
  if (is_op(node, "input")) return input(id);
  if (is_source(node)) return source(id);
  check(!node.op->comm, "[partition] expected a step of the whole batch, whose collectives are put in here, got {}{}",
        node.op->name, node.scope.empty() ? "" : " in " + node.scope.str());
  const Types in = types_at(global_, {node.in.data(), node.in.size()});
  const Types out = types_at(global_, {node.out.data(), node.out.size()});
  Placements now;
  for (ValueId value : node.in) now.push_back(placed(value));
  if (is_control(*node.op)) expect_whole(node, now);
  const ShardCall call{
      *node.op, {in.data(), in.size()}, {out.data(), out.size()}, node.attrs, {now.data(), now.size()}};
  distribute(id, node.op->shard ? node.op->shard(call) : rules::shard_replicated(call));
}

void Partitioner::source(NodeId id) {
  const ValueId out = global_.node(id).out[0];
  rewriter_.copy(id);
  pieces(out) = {rewriter_.map(out)};
}

// An argument arrives as this rank's rows; each own piece is a slice of them.
void Partitioner::input(NodeId id) {
  const Node& node = global_.node(id);
  const auto index = static_cast<std::size_t>(source_index(node));
  const ValueId out = node.out[0];
  const Placement placement = index < inputs_.size() ? inputs_[index] : Placement::replicate();
  TensorType type = global_.value(out).type;
  placed(out) = placement;
  Graph& to = rewriter_.to();
  if (!placement.is_split()) {
    const ValueId whole = to.add_input(type);
    to.node(to.value(whole).node).device = node.device;
    pieces(out) = {whole};
    return;
  }
  check(placement.dim == 0 && type.shape.rank() > 0,
        "[partition] expected inputs to be split along dimension 0, got {} of {}", to_string(placement),
        to_string(type));
  const std::int64_t size = type.shape[0];
  const auto begin = piece_of(size, mesh_.first, mesh_.parts).begin;
  const auto last = piece_of(size, mesh_.first + mesh_.count - 1, mesh_.parts);
  type.shape[0] = last.begin + last.size - begin;
  const ValueId local = to.add_input(type);
  to.node(to.value(local).node).device = node.device;
  to.value(local).spec = {placement};
  if (mesh_.count == 1) {
    pieces(out) = {local};
    return;
  }
  static const OpDef& slice = find_op("slice");
  for (int part = mesh_.first; part < mesh_.first + mesh_.count; ++part) {
    const Piece piece = piece_of(size, part, mesh_.parts);
    const SliceAttrs attrs{.axis = 0, .begin = piece.begin - begin, .end = piece.begin - begin + piece.size};
    pieces(out).push_back(to.node(rewriter_.emit(slice, {&local, 1}, attrs, id)).out[0]);
  }
}

Shape Partitioner::local_shape(const Shape& global, Placement placement, int part) const {
  Shape shape = global;
  if (placement.is_split()) shape[placement.dim] = piece_of(global[placement.dim], part, mesh_.parts).size;
  return shape;
}

// Attributes named shape, global and offset describe the result, so they follow its piece.
Attrs Partitioner::local_attrs(const Node& node, const ShardRule& rule, int part) const {
  Attrs attrs = node.attrs;
  if (node.out.empty() || !rule.out[0].is_split()) return attrs;
  const Shape& global = global_.value(node.out[0]).type.shape;
  if (const auto* field = attrs.find("shape")) attrs.get<Shape>(*field) = local_shape(global, rule.out[0], part);
  const auto* whole = attrs.find("global");
  const auto* offset = attrs.find("offset");
  if (whole && offset) {
    attrs.get<Shape>(*whole) = global;
    Shape at = Shape::filled(global.rank(), 0);
    at[rule.out[0].dim] = piece_of(global[rule.out[0].dim], part, mesh_.parts).begin;
    attrs.get<Shape>(*offset) = at;
  }
  return attrs;
}

void Partitioner::distribute(NodeId id, const ShardRule& rule) {
  const Node& node = global_.node(id);
  std::vector<Pieces> in;
  bool split = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    in.push_back(as(node.in[i], rule.in[i]));
    split |= !rule.in[i].is_replicate();
  }
  for (const auto& out : rule.out) split |= !out.is_replicate();
  const int copies = split ? mesh_.count : 1;
  for (int k = 0; k < copies; ++k) {
    SmallVector<ValueId, 4> operands;
    for (const auto& operand : in) operands.push_back(operand[operand.size() == 1 ? 0 : static_cast<std::size_t>(k)]);
    SmallVector<ValueId, 2> results;
    if (is_without_rows(node, rule, mesh_.first + k)) {
      results = stand_ins(id, rule, {operands.data(), operands.size()}, mesh_.first + k);
    } else {
      const NodeId made =
          rewriter_.emit(*node.op, {operands.data(), operands.size()}, local_attrs(node, rule, mesh_.first + k), id);
      rewriter_.stands_for(id, made);
      results = rewriter_.to().node(made).out;
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId value = results[i];
      rewriter_.to().value(value).spec = {rule.out[i]};
      pieces(node.out[i]).push_back(value);
      const Shape expected = local_shape(global_.value(node.out[i]).type.shape, rule.out[i], mesh_.first + k);
      check(rewriter_.to().value(value).type.shape == expected, "[partition] expected {} to make {} here, got {}",
            node.op->name, to_string(expected), to_string(rewriter_.to().value(value).type.shape));
    }
  }
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    placed(node.out[i]) = rule.out[i];
    rows_[static_cast<std::size_t>(node.out[i])] = averaged_rows(node, rule);
  }
}

// Whose rows an average is made of: its operands', or those of the average it was made from.
std::int64_t Partitioner::averaged_rows(const Node& node, const ShardRule& rule) const {
  std::int64_t rows = mesh_.parts;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (rule.in[i].is_partial()) rows = std::min(rows, rows_[static_cast<std::size_t>(node.in[i])]);
    if (rule.in[i].is_split()) rows = std::min(rows, global_.value(node.in[i]).type.shape[rule.in[i].dim]);
  }
  return rows;
}

// Ops that refuse a piece without elements, where other ops make nothing, or zeros, of it.
bool Partitioner::is_without_rows(const Node& node, const ShardRule& rule, int part) const {
  constexpr std::string_view kRefuse[] = {"batch_norm_train", "batch_norm_train_backward", "max", "min"};
  if (std::find(std::begin(kRefuse), std::end(kRefuse), node.op->name) == std::end(kRefuse)) return false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!rule.in[i].is_split()) continue;
    const std::int64_t size = global_.value(node.in[i]).type.shape[rule.in[i].dim];
    if (size > 0 && piece_of(size, part, mesh_.parts).size == 0) return true;
  }
  return false;
}

// What a piece without rows adds to the others: nothing. Control edges keep the place among the collectives that the
// node has on other ranks.
SmallVector<ValueId, 2> Partitioner::stand_ins(NodeId id, const ShardRule& rule, std::span<const ValueId> operands,
                                               int part) {
  SmallVector<ValueId, 2> results;
  const Node& node = global_.node(id);
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    const TensorType& type = global_.value(node.out[i]).type;
    FullAttrs nothing{.shape = local_shape(type.shape, rule.out[i], part), .value = 0, .dtype = type.dtype};
    const bool extreme = rule.out[i].is_partial() && rule.out[i].reduce != ReduceOp::sum &&
                         rule.out[i].reduce != ReduceOp::mean && is_float(type.dtype);
    const double infinity = std::numeric_limits<double>::infinity();
    if (extreme) nothing.value = rule.out[i].reduce == ReduceOp::max ? -infinity : infinity;
    const NodeId made = rewriter_.emit(find_op("full"), {}, nothing, id);
    for (ValueId operand : operands) rewriter_.to().node(made).after.push_back(rewriter_.to().value(operand).node);
    rewriter_.stands_for(id, made);
    results.push_back(rewriter_.to().node(made).out[0]);
  }
  return results;
}

Partitioner::Pieces Partitioner::as(ValueId value, Placement wanted) {
  const Placement now = placed(value);
  if (now == wanted) return pieces(value);
  const NodeId like = global_.value(value).node;
  if (wanted.is_replicate()) return replicate(value, like);
  check(wanted.is_split(), "[partition] expected to make %{} {} from {}, which cannot be done", value,
        to_string(wanted), to_string(now));
  const Pieces whole = now.is_replicate() ? pieces(value) : replicate(value, like);
  return cut(whole[0], global_.value(value).type.shape, wanted.dim, like);
}

Partitioner::Pieces Partitioner::cut(ValueId whole, const Shape& shape, int dim, NodeId like) {
  static const OpDef& slice = find_op("slice");
  Pieces out;
  for (int part = mesh_.first; part < mesh_.first + mesh_.count; ++part) {
    const Piece piece = piece_of(shape[dim], part, mesh_.parts);
    const SliceAttrs attrs{.axis = dim, .begin = piece.begin, .end = piece.begin + piece.size};
    const NodeId made = rewriter_.emit(slice, {&whole, 1}, attrs, like);
    rewriter_.to().value(rewriter_.to().node(made).out[0]).spec = {Placement::split(dim)};
    out.push_back(rewriter_.to().node(made).out[0]);
  }
  return out;
}

// The mean over the pieces that have rows.
Partitioner::Pieces Partitioner::averaged(Pieces terms, NodeId like, const std::string& label, std::int64_t rows) {
  const DType dtype = rewriter_.to().value(terms[0]).type.dtype;
  const auto times = [&](ValueId value, double factor) {
    const FullAttrs share{.value = factor, .dtype = dtype};
    const ValueId both[] = {value, rewriter_.to().node(rewriter_.emit(find_op("full"), {}, share, like)).out[0]};
    return rewriter_.to().node(rewriter_.emit(find_op("mul"), both, {}, like)).out[0];
  };
  if (rows >= mesh_.parts)
    return {times(reduced(std::move(terms), ReduceOp::sum, like, label, rows)[0], 1.0 / mesh_.parts)};
  int part = mesh_.first;
  for (ValueId& term : terms) {
    const bool gives = piece_of(rows, part++, mesh_.parts).size > 0;
    term = times(term, gives ? 1.0 / static_cast<double>(rows) : 0.0);
  }
  return reduced(std::move(terms), ReduceOp::sum, like, label, rows);
}

Partitioner::Pieces Partitioner::reduced(Pieces terms, ReduceOp reduce, NodeId like, const std::string& label,
                                         std::int64_t rows) {
  static const OpDef& ordered = find_op("ordered_sum");
  static const OpDef& all = find_op("all_reduce");
  if (reduce == ReduceOp::mean) return averaged(std::move(terms), like, label, rows);
  if (mesh_.ordered) {
    check(reduce == ReduceOp::sum, "[partition] expected sums in deterministic mode, got a {}", name(reduce));
    const OrderedSumAttrs attrs{mesh_.parts, Symbol(mesh_.order), Symbol(label)};
    return {rewriter_.to().node(rewriter_.emit(ordered, {terms.data(), terms.size()}, attrs, like)).out[0]};
  }
  const AllReduceAttrs attrs{Symbol(name(reduce)), Symbol(label)};
  return {rewriter_.to().node(rewriter_.emit(all, {terms.data(), 1}, attrs, like)).out[0]};
}

// Terms are reduced; rows are gathered; other slices, and those of logical shards, are laid into zeros at their place
// and added up.
Partitioner::Pieces Partitioner::replicate(ValueId value, NodeId like) {
  Pieces& known = whole_[static_cast<std::size_t>(value)];
  if (!known.empty()) return known;
  const Placement now = placed(value);
  const Node& maker = global_.node(like);
  const std::string label =
      fmt::format("{}{}{}%{}", maker.scope.str(), maker.scope.empty() ? "" : "/", maker.op->name, value);
  if (now.is_partial()) {
    known = reduced(pieces(value), now.reduce, like, label, rows_[static_cast<std::size_t>(value)]);
    return known;
  }
  static const OpDef& lay = find_op("slice_backward");
  const Shape& shape = global_.value(value).type.shape;
  if (now.dim == 0 && !mesh_.ordered) {
    const PiecesAttrs attrs{.rows = shape[0], .rank = mesh_.first, .ranks = mesh_.parts, .name = Symbol(label)};
    const ValueId own = pieces(value)[0];
    known = {rewriter_.to().node(rewriter_.emit(find_op("all_gather"), {&own, 1}, attrs, like)).out[0]};
    return known;
  }
  Pieces laid;
  for (int k = 0; k < mesh_.count; ++k) {
    const Piece piece = piece_of(shape[now.dim], mesh_.first + k, mesh_.parts);
    const SliceBackwardAttrs attrs{shape, now.dim, piece.begin, piece.begin + piece.size, 1};
    const ValueId own = pieces(value)[static_cast<std::size_t>(k)];
    laid.push_back(rewriter_.to().node(rewriter_.emit(lay, {&own, 1}, attrs, like)).out[0]);
  }
  known = reduced(laid, ReduceOp::sum, like, label, mesh_.parts);
  return known;
}

// A result is whole on every rank, or this rank's rows of it.
void Partitioner::outputs() {
  static const OpDef& concat = find_op("concat");
  for (ValueId id : global_.outputs) {
    const NodeId like = global_.value(id).node;
    if (placed(id).is_split(0)) {
      if (pieces(id).size() == 1) continue;
      const NodeId joined = rewriter_.emit(concat, {pieces(id).data(), pieces(id).size()}, AxisAttrs{0}, like);
      pieces(id) = {rewriter_.to().node(joined).out[0]};
      rewriter_.to().value(pieces(id)[0]).spec = {Placement::split(0)};
      continue;
    }
    if (!placed(id).is_replicate()) pieces(id) = replicate(id, like);
    placed(id) = Placement::replicate();
  }
}

Piece rows_of(std::int64_t size, const PassContext& context) {
  if (context.shards == 0) return piece_of(size, context.rank, context.world);
  const Piece shards = piece_of(context.shards, context.rank, context.world);
  const auto begin = piece_of(size, static_cast<int>(shards.begin), context.shards).begin;
  const auto last = piece_of(size, static_cast<int>(shards.begin + shards.size) - 1, context.shards);
  return {begin, last.begin + last.size - begin};
}

}  // namespace starling
