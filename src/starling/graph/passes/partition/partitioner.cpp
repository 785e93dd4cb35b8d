#include "starling/graph/passes/partition/partitioner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/passes/partition/picture_norms.h"
#include "starling/graph/splice.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/matmul.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/shared_update.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling::graph {
namespace {

// Simpler ops for one that has no sharding rule of its own, or none for rows of pictures.
std::optional<Graph> parts_of(const Graph& graph, const Node& node, bool height) {
  Types types;
  for (ValueId in : node.in) types.push_back(graph.value(in).type);
  if (height) {
    if (auto sums = in_sums_over_rows(node, types)) return sums;
  }
  if (!node.op->decompose || node.op->shard || is_op(node, "matmul_sgd")) return std::nullopt;
  return decomposition(*node.op, {types.data(), types.size()}, node.attrs);
}

// `values` becomes, by value, what it is in the result. `height`: rows of pictures are split.
Graph decomposed(const Graph& graph, std::vector<ValueId>& values, bool height) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const auto parts = parts_of(graph, node, height);
    if (!parts) {
      rewriter.copy(id);
      continue;
    }
    const auto in = rewriter.map({node.in.data(), node.in.size()});
    const auto out = splice(rewriter, *parts, {in.data(), in.size()}, id);
    for (std::size_t i = 0; i < out.size(); ++i) rewriter.set(node.out[i], out[i]);
  }
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) values.push_back(rewriter.map(id));
  return rewriter.finish();
}

Types types_at(const Graph& graph, std::span<const ValueId> ids) {
  Types types;
  for (ValueId id : ids) types.push_back(graph.value(id).type);
  return types;
}

// Operands of bodies must be replicated: a body's behaviour on part of the rows is unknown. Partial terms are reduced
// first.
void expect_whole(const Node& node, const Layouts& layouts) {
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    check(!layouts[i].is_split(),
          "[partition] expected operands of {}{} to be whole on every rank, got operand {} as {}", node.op->name,
          node.scope.empty() ? "" : " in " + node.scope.str(), i, to_string(layouts[i]));
  }
}

bool acts(const Graph& graph) {
  const auto outside = [&](const Node& node) { return acts_outside(graph, node); };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), outside);
}

// Only the first rank writes files: here the op only returns the number of bytes.
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

Partitioner::Partitioner(const Graph& global, Mesh mesh, std::vector<Layout> inputs)
    : global_(decomposed(global, given_, mesh.height)),
      mesh_(std::move(mesh)),
      inputs_(std::move(inputs)),
      rewriter_(global_) {
  layouts_.resize(global_.values().size());
  made_.resize(global_.values().size());
  pieces_.resize(global_.values().size());
  whole_.resize(global_.values().size());
  blocks_.resize(global_.values().size());
  rows_.resize(global_.values().size(), mesh_.parts);
  terms_.resize(global_.values().size());
  of_inputs_.resize(global_.values().size());
  state_.resize(global_.values().size());
  wished_.resize(global_.values().size());
  gathers_.resize(global_.values().size());
  if (!mesh_.rounds.empty()) begin_rounds();
  if (mesh_.shards_done) forget_marks();
  find_wishes();
}

Graph Partitioner::run() {
  for (NodeId id = 0; id < global_.size(); ++id) {
    node(id);
    for (ValueId out : global_.node(id).out) made_[static_cast<std::size_t>(out)] = layout_of(out);
  }
  outputs();
  for (ValueId id : global_.outputs) rewriter_.to().outputs.push_back(pieces(id)[0]);
  if (mesh_.first > 0) stop_writing(rewriter_.to());
  if (mesh_.whole_results) forget_layouts();
  if (!mesh_.rounds.empty() || mesh_.shards_done) restore_layouts();
  return std::move(rewriter_.to());
}

Partitioner::Outcome Partitioner::outcome(ValueId given) const {
  const auto at = static_cast<std::size_t>(given_[static_cast<std::size_t>(given)]);
  return {made_[at], pieces_[at].empty() ? -1 : pieces_[at][0]};
}

void Partitioner::note_fallback(NodeId id, const ShardRule& rule) {
  const Node& node = global_.node(id);
  const auto is_whole = [](Layout layout) { return layout.is_replicate(); };
  if (!std::all_of(rule.in.begin(), rule.in.end(), is_whole)) return;
  // Where pictures become vectors their rows end.
  if (mesh_.height && is_op(node, "reshape") && shape_of(node.in[0]).rank() >= 4 && shape_of(node.out[0]).rank() == 2)
    return;
  for (ValueId in : node.in) {
    if (!layout_of(in).is_split() || state_[static_cast<std::size_t>(in)]) continue;
    const TensorType result = node.out.empty() ? TensorType{} : global_.value(node.out[0]).type;
    fallbacks_.push_back({node.op->name, node.scope.str(), layout_of(in), global_.value(in).type, result});
    return;
  }
}

// Layouts are along one axis; what is marked for every axis stays.
void Partitioner::forget_layouts() {
  Graph& to = rewriter_.to();
  for (ValueId id = 0; id < static_cast<ValueId>(to.values().size()); ++id) to.value(id).layouts = {};
  for (ValueId id = 0; id < static_cast<ValueId>(global_.values().size()); ++id) {
    const Layouts& marked = global_.value(id).layouts;
    if (marked.empty() || marked[0].is_split()) continue;
    for (ValueId made : pieces(id)) to.value(made).layouts = marked;
  }
}

void Partitioner::node(NodeId id) {
  const Node& node = global_.node(id);
  now_ = id;
  if (is_op(node, "input")) return input(id);
  if (is_source(node)) return pieces(node.out[0]).empty() ? source(id) : void();  // else read before its turn
  if (is_op(node, "matmul_sgd")) return share_update(id);
  if (!mesh_.rounds.empty()) return round_node(id);
  if (mesh_.shards_done && after_shards(id)) return;
  if (keep_terms(id) || keep_pieces(id) || compute_whole(id) || across_other_axis(id)) return;
  // An exchange with a rule of its own, such as coded_reduce, stands in place of one that would be put in.
  check(!node.op->comm || node.op->shard,
        "[partition] expected a step of the whole batch, whose collectives are put in here, got {}{}", node.op->name,
        node.scope.empty() ? "" : " in " + node.scope.str());
  if (merge_blocks(id) || part_blocks(id) || take_block(id) || put_block(id) || keep_major(id) || look_up_range(id) ||
      look_through_windows(id))
    return;
  const ShardRule rule = rule_of(id);
  note_fallback(id, rule);
  if (activate_sum(id, rule)) return;
  distribute(id, rule, common_blocks(node, rule));
}

// Layouts for a node. Pieces of state are used as they are where all operands are such; else they count as whole here,
// and are gathered.
ShardRule Partitioner::rule_of(NodeId id) {
  const Node& node = global_.node(id);
  const Types in = types_at(global_, {node.in.data(), node.in.size()});
  const Types out = types_at(global_, {node.out.data(), node.out.size()});
  const bool pieces = takes_pieces(node);
  const auto ruled = [&] {
    Layouts now;
    for (ValueId value : node.in)
      now.push_back(pieces || !state_[static_cast<std::size_t>(value)] ? layout_of(value) : Layout::replicate());
    if (is_control(*node.op) && !mesh_.height) expect_whole(node, now);  // bands of pictures are gathered
    const ShardCall call{
        *node.op, {in.data(), in.size()}, {out.data(), out.size()}, node.attrs, {now.data(), now.size()}};
    return node.op->shard ? node.op->shard(call) : rules::shard_replicated(call);
  };
  const ShardRule rule = ruled();
  return pieces && scatter_operands(node, rule) ? ruled() : rule;
}

// An op that ends in an activation, which terms of a sum cannot pass: they are reduced first.
bool Partitioner::activate_sum(NodeId id, const ShardRule& rule) {
  if (!rule.unfuse) return false;
  const Node& node = global_.node(id);
  op::LinearAttrs attrs = node.attrs.as<op::LinearAttrs>();
  const Symbol activation = std::exchange(attrs.activation, Symbol());
  distribute(id, {rule.in, rule.out}, common_blocks(node, rule), attrs);
  const OpDef& op = find_op(activation.str());
  const ValueId sum = replicate(node.out[0], id)[0];
  set(node.out[0], emit(op.name, {sum}, Attrs::defaults(*op.attrs), id), Layout::replicate());
  whole_[static_cast<std::size_t>(node.out[0])].clear();
  return true;
}

// Shared update: all ranks gather the factors, each updates its own rows of the weight and receives the others'. The
// rows are assigned before they are gathered, so that both happen in the variable's memory.
void Partitioner::share_update(NodeId id) {
  static const OpDef &slice = find_op("slice"), &step = find_op("matmul_sgd_rows"), &gather = find_op("gather_rows"),
                     &assign = find_op("assign");
  const Node& node = global_.node(id);
  Graph& to = rewriter_.to();
  const auto whole = [&](std::size_t i) { return as(node.in[i], Layout::replicate(), 0)[0]; };
  const auto& sgd = node.attrs.as<op::MatmulSgdAttrs>();
  check(sgd.trans_a && !sgd.trans_b && !mesh_.ordered,
        "[partition] expected the update of a weight by a product over rows, got {}", node.op->name);
  const std::int64_t rows = global_.value(node.in[0]).type.shape[0];
  const Piece own = piece_of(rows, mesh_.first, mesh_.parts);
  const ValueId errors = whole(2), inputs = whole(3);
  const NodeId cut = rewriter_.emit(slice, {&errors, 1},
                                    op::SliceAttrs{.axis = 1, .begin = own.begin, .end = own.begin + own.size}, id);
  const ValueId in[] = {whole(0), whole(1), to.node(cut).out[0], inputs, whole(4)};
  const NodeId made = rewriter_.emit(step, in, op::RowsSgdAttrs{own.begin, sgd.momentum, sgd.weight_decay}, id);
  const ValueId updated[] = {to.node(made).out[0], to.node(made).out[1]};
  for (std::size_t i = 0; i < 2; ++i)
    rewriter_.emit(assign, {&updated[i], 1}, op::AssignAttrs{source_index(global_.maker(node.in[i]))}, id);
  const op::PiecesAttrs pieces_of_all{
      .rows = rows,
      .rank = mesh_.first,
      .ranks = mesh_.parts,
      .name = Symbol(fmt::format(
          "rows of {}", global_.variables[static_cast<std::size_t>(source_index(global_.maker(node.in[0])))].name)),
      .group = mesh_.group};
  const NodeId all = rewriter_.emit(gather, updated, pieces_of_all, id);
  rewriter_.stands_for(id, all);
  for (std::size_t i = 0; i < 2; ++i) {
    pieces(node.out[i]) = {to.node(all).out[i]};
    layout_of(node.out[i]) = Layout::replicate();
    to.value(to.node(all).out[i]).layouts = {Layout::replicate()};
  }
}

void Partitioner::source(NodeId id) {
  const ValueId out = global_.node(id).out[0];
  if (const auto stored = stored_.find(source_index(global_.node(id)));
      is_op(global_.node(id), "variable") && stored != stored_.end())
    return read_pieces(id, stored->second);
  rewriter_.copy(id);
  pieces(out) = {rewriter_.map(out)};
  const Layouts& marked = global_.value(out).layouts;
  if (!is_op(global_.node(id), "variable") || marked.empty() || marked[0] != Layout::partial()) return;
  check(mesh_.count == 1, "[partition] expected one piece for each rank where variables hold terms, got {}",
        mesh_.count);
  layout_of(out) = Layout::partial();
  terms_[static_cast<std::size_t>(out)] = true;
  kept_.insert(source_index(global_.node(id)));
}

// Arguments hold this rank's rows; each own piece is a slice of them.
void Partitioner::input(NodeId id) {
  const Node& node = global_.node(id);
  const auto index = static_cast<std::size_t>(source_index(node));
  const ValueId out = node.out[0];
  const Layout layout = index < inputs_.size() ? inputs_[index] : Layout::replicate();
  TensorType type = global_.value(out).type;
  layout_of(out) = layout;
  Graph& to = rewriter_.to();
  if (!layout.is_split()) {
    const ValueId whole = to.add_input(type);
    to.node(to.value(whole).node).device = node.device;
    if (!take_rows(out, whole)) pieces(out) = {whole};
    return;
  }
  check(layout.dim == 0 && type.shape.rank() > 0,
        "[partition] expected inputs to be split along dimension 0, got {} of {}", to_string(layout), to_string(type));
  const std::int64_t size = type.shape[0];
  const auto begin = piece_of(size, mesh_.first, mesh_.parts).begin;
  const auto last = piece_of(size, mesh_.first + mesh_.count - 1, mesh_.parts);
  type.shape[0] = last.begin + last.size - begin;
  of_inputs_[static_cast<std::size_t>(out)] = true;
  const ValueId local = to.add_input(type);
  to.node(to.value(local).node).device = node.device;
  to.value(local).layouts = {layout};
  if (mesh_.count == 1) {
    pieces(out) = {local};
    return;
  }
  static const OpDef& slice = find_op("slice");
  for (int part = mesh_.first; part < mesh_.first + mesh_.count; ++part) {
    const Piece piece = piece_of(size, part, mesh_.parts);
    const op::SliceAttrs attrs{.axis = 0, .begin = piece.begin - begin, .end = piece.begin - begin + piece.size};
    pieces(out).push_back(to.node(rewriter_.emit(slice, {&local, 1}, attrs, id)).out[0]);
  }
}

Shape Partitioner::local_shape(const Shape& global, Layout layout, int part, std::int64_t blocks) const {
  Shape shape = global;
  if (layout.is_split())
    shape[layout.dim] = size_in_blocks(global[layout.dim], std::max<std::int64_t>(blocks, 1), part, mesh_.parts);
  return shape;
}

// Attributes of one piece: those named shape, global and offset describe the result. A piece of a piece along another
// axis of the mesh lies in the whole of both.
Attrs Partitioner::local_attrs(const Node& node, const Attrs& given, const ShardRule& rule, int part,
                               std::int64_t blocks) const {
  Attrs attrs = given;
  if (node.out.empty() || !rule.out[0].is_split()) return attrs;
  const Shape& global = global_.value(node.out[0]).type.shape;
  if (const auto* field = attrs.find("shape"))
    attrs.get<Shape>(*field) = local_shape(global, rule.out[0], part, blocks);
  const auto* whole = attrs.find("global");
  const auto* offset = attrs.find("offset");
  if (whole && offset) {
    Shape& at = attrs.get<Shape>(*offset);
    if (attrs.get<Shape>(*whole).empty()) {
      attrs.get<Shape>(*whole) = global;
      at = Shape::filled(global.rank(), 0);
    }
    at[rule.out[0].dim] += piece_of(global[rule.out[0].dim], part, mesh_.parts).begin;
  }
  return attrs;
}

void Partitioner::distribute(NodeId id, const ShardRule& rule, std::int64_t blocks) {
  distribute(id, rule, blocks, global_.node(id).attrs);
}

// `blocks`: operands with that many blocks are used without regrouping, and so are results.
void Partitioner::distribute(NodeId id, const ShardRule& rule, std::int64_t blocks, const Attrs& attrs) {
  const Node& node = global_.node(id);
  std::vector<Pieces> in;
  bool split = false, of_inputs = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    of_inputs |= layout_of(node.in[i]) == rule.in[i] && is_of_inputs(node.in[i]);
    in.push_back(as(node.in[i], rule.in[i], blocks));
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
      const NodeId made = rewriter_.emit(*node.op, {operands.data(), operands.size()},
                                         local_attrs(node, attrs, rule, mesh_.first + k, blocks), id);
      rewriter_.stands_for(id, made);
      results = rewriter_.to().node(made).out;
      note_use({operands.data(), operands.size()}, made);
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId value = results[i];
      rewriter_.to().value(value).layouts = {rule.out[i]};
      pieces(node.out[i]).push_back(value);
      const Shape expected = local_shape(global_.value(node.out[i]).type.shape, rule.out[i], mesh_.first + k, blocks);
      check(rewriter_.to().value(value).type.shape == expected, "[partition] expected {} to make {} here, got {}",
            node.op->name, to_string(expected), to_string(rewriter_.to().value(value).type.shape));
    }
  }
  const bool of_state = takes_pieces(node);
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    of_inputs_[static_cast<std::size_t>(node.out[i])] = of_inputs && rule.out[i].is_split();
    layout_of(node.out[i]) = rule.out[i];
    state_[static_cast<std::size_t>(node.out[i])] = of_state && rule.out[i].is_split();
    this->blocks(node.out[i]) = rule.out[i].is_split() ? blocks : 0;
    rows_[static_cast<std::size_t>(node.out[i])] = averaged_rows(node, rule);
  }
}

// Number of rows of an average: of its operands, or of the average it was made from.
std::int64_t Partitioner::averaged_rows(const Node& node, const ShardRule& rule) const {
  std::int64_t rows = mesh_.parts;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (rule.in[i].is_partial()) rows = std::min(rows, rows_[static_cast<std::size_t>(node.in[i])]);
    if (rule.in[i].is_split()) rows = std::min(rows, global_.value(node.in[i]).type.shape[rule.in[i].dim]);
  }
  return rows;
}

// True where the op would refuse a piece because it is empty.
bool Partitioner::is_without_rows(const Node& node, const ShardRule& rule, int part) const {
  if (!node.op->needs_elements) return false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!rule.in[i].is_split()) continue;
    const std::int64_t size = global_.value(node.in[i]).type.shape[rule.in[i].dim];
    if (size > 0 && piece_of(size, part, mesh_.parts).size == 0) return true;
  }
  return false;
}

// Neutral results for a piece without rows. Control edges keep the position among the collectives that the node has on
// other ranks.
SmallVector<ValueId, 2> Partitioner::stand_ins(NodeId id, const ShardRule& rule, std::span<const ValueId> operands,
                                               int part) {
  SmallVector<ValueId, 2> results;
  const Node& node = global_.node(id);
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    const TensorType& type = global_.value(node.out[i]).type;
    op::FullAttrs nothing{.shape = local_shape(type.shape, rule.out[i], part), .value = 0, .dtype = type.dtype};
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

// Mean over the pieces that have rows.
Partitioner::Pieces Partitioner::averaged(Pieces terms, NodeId like, const std::string& label, std::int64_t rows) {
  if (rows >= mesh_.parts)
    return {times(reduced(std::move(terms), ReduceOp::sum, like, label, rows)[0], 1.0 / mesh_.parts, like)};
  int part = mesh_.first;
  for (ValueId& term : terms) {
    const bool gives = piece_of(rows, part++, mesh_.parts).size > 0;
    term = times(term, gives ? 1.0 / static_cast<double>(rows) : 0.0, like);
  }
  return reduced(std::move(terms), ReduceOp::sum, like, label, rows);
}

ValueId Partitioner::times(ValueId value, double factor, NodeId like) {
  const op::FullAttrs share{.value = factor, .dtype = rewriter_.to().value(value).type.dtype};
  return emit("mul", {value, emit("full", {}, share, like)}, {}, like);
}

// Name of the collective that brings a value together, for diagnostics.
std::string Partitioner::label_of(ValueId value) const {
  const Node& maker = global_.maker(value);
  return fmt::format("{}{}{}%{}", maker.scope.str(), maker.scope.empty() ? "" : "/", maker.op->name, value);
}

Partitioner::Pieces Partitioner::reduced(Pieces terms, ReduceOp reduce, NodeId like, const std::string& label,
                                         std::int64_t rows) {
  static const OpDef& ordered = find_op("ordered_sum");
  static const OpDef& all = find_op("all_reduce");
  if (reduce == ReduceOp::mean) return averaged(std::move(terms), like, label, rows);
  if (!mesh_.rounds.empty()) return summed(terms, reduce, like);
  if (mesh_.ordered) {
    check(reduce == ReduceOp::sum, "[partition] expected sums in deterministic mode, got a {}", name(reduce));
    const op::OrderedSumAttrs attrs{
        .shards = mesh_.parts, .order = Symbol(mesh_.order), .name = Symbol(label), .group = mesh_.group};
    return {rewriter_.to().node(rewriter_.emit(ordered, {terms.data(), terms.size()}, attrs, like)).out[0]};
  }
  const op::AllReduceAttrs attrs{.reduce = reduce, .name = Symbol(label), .group = mesh_.group};
  return {rewriter_.to().node(rewriter_.emit(all, {terms.data(), 1}, attrs, like)).out[0]};
}

// Partial values are reduced, pieces are gathered; logical shards are padded with zeros and summed in their order.
Partitioner::Pieces Partitioner::replicate(ValueId value, NodeId like) {
  Pieces& known = whole_[static_cast<std::size_t>(value)];
  if (!known.empty()) return known;
  const Layout now = layout_of(value);
  if (now.is_replicate()) return pieces(value);
  if (state_[static_cast<std::size_t>(value)] && now.is_split(0)) return gather_pieces(value, like);
  if (now.is_partial()) {
    known = reduced(pieces(value), now.reduce, like, label_of(value), rows_[static_cast<std::size_t>(value)]);
    layout_of(value) = Layout::replicate();
    return pieces(value) = known;
  }
  if (!mesh_.rounds.empty()) return known = joined_rounds(value, like);
  if (!mesh_.ordered) return known = gathered(value, like);
  const Shape& shape = global_.value(value).type.shape;
  Pieces laid;
  for (int k = 0; k < mesh_.count; ++k) {
    const Piece piece = piece_of(shape[now.dim], mesh_.first + k, mesh_.parts);
    const op::SliceBackwardAttrs attrs{shape, now.dim, piece.begin, piece.begin + piece.size, 1};
    laid.push_back(emit("slice_backward", {pieces(value)[static_cast<std::size_t>(k)]}, attrs, like));
  }
  return known = reduced(laid, ReduceOp::sum, like, label_of(value), mesh_.parts);
}

// Results are replicated, or split by rows of the inputs.
void Partitioner::outputs() {
  static const OpDef& concat = find_op("concat");
  for (ValueId id : global_.outputs) {
    const NodeId like = global_.value(id).node;
    const bool rows = layout_of(id).is_split(0) && blocks(id) == 0 && of_inputs_[static_cast<std::size_t>(id)];
    if (rows && !mesh_.whole_results) {
      if (pieces(id).size() == 1) continue;
      const NodeId joined = rewriter_.emit(concat, {pieces(id).data(), pieces(id).size()}, op::AxisAttrs{0}, like);
      pieces(id) = {rewriter_.to().node(joined).out[0]};
      rewriter_.to().value(pieces(id)[0]).layouts = {Layout::split(0)};
      continue;
    }
    if (!layout_of(id).is_replicate()) pieces(id) = replicate(id, like);
    layout_of(id) = Layout::replicate();
  }
}

Piece rows_of(std::int64_t size, const PassContext& context) {
  if (context.shards == 0) return piece_of(size, context.rank, context.world);
  const Piece shards = piece_of(context.shards, context.rank, context.world);
  const auto begin = piece_of(size, static_cast<int>(shards.begin), context.shards).begin;
  const auto last = piece_of(size, static_cast<int>(shards.begin + shards.size) - 1, context.shards);
  return {begin, last.begin + last.size - begin};
}

}  // namespace starling::graph
