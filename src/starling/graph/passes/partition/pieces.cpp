// Variables of which every rank stores a piece: reading, updating and gathering them.
#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/comm.h"
#include "starling/ops/def/control.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/state.h"
#include "starling/ops/def/update.h"

namespace starling::graph {
namespace {

// A gathered value is kept until so many others have been gathered after it, then dropped and gathered again where it
// is needed once more; and a gather waits until what is then too old has been used. So at most so many are alive, and
// one is under way while another is used.
constexpr int kGathered = 2;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

// Values that end in stored pieces: what is assigned to them, gradients of updates of them, and what those are made of,
// element by element.
void Partitioner::find_wishes() {
  for (NodeId id = 0; id < global_.size(); ++id) {
    const Node& node = global_.node(id);
    if (!is_op(node, "variable")) continue;
    const Layouts& marked = global_.value(node.out[0]).layouts;
    if (!marked.empty() && marked[0].is_split()) stored_[source_index(node)] = marked[0];
  }
  if (stored_.empty()) return;
  check(mesh_.count == 1 && !mesh_.ordered, "[partition] expected one piece for each rank where state is split, got {}",
        mesh_.count);
  for (NodeId id = global_.size() - 1; id >= 0; --id) wish(global_.node(id));
}

void Partitioner::wish(const Node& node) {
  if (is_op(node, "assign")) {
    const auto stored = stored_.find(source_index(node));
    if (stored != stored_.end()) wished_[at(node.in[0])] = stored->second;
    return;
  }
  const auto split = [&](ValueId out) { return wished_[at(out)].is_split(); };
  const auto found = std::find_if(node.out.begin(), node.out.end(), split);
  if (found == node.out.end()) return;
  if (const auto update = op::update_operands(*node.op, node.attrs)) {
    const std::size_t n = update->tensors(node.in.size());
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t target = 0; target < update->targets; ++target) {
        if (split(node.out[target * n + i]))
          wished_[at(node.in[update->targets * n + i])] = wished_[at(node.out[target * n + i])];
      }
    }
    return;
  }
  const Shape& shape = global_.value(*found).type.shape;
  const bool by_element = node.op->elementwise() || (node.in.size() == 1 && node.out.size() == 1);
  for (ValueId in : node.in) {
    if (by_element && global_.value(in).type.shape == shape) wished_[at(in)] = wished_[at(*found)];
  }
}

// True for a node that is computed on pieces of gathered state: an update, or any whose operands are pieces of state,
// become such, or fit them element by element. Views are not: they are of the gathered value, which has its order of
// elements.
bool Partitioner::takes_pieces(const Node& node) const {
  if (stored_.empty() || is_control(*node.op) || node.op->comm) return false;
  if (node.op->view && !is_op(node, "identity")) return false;
  const bool update = op::update_operands(*node.op, node.attrs).has_value();
  bool any = false;
  for (ValueId in : node.in) {
    if (state_[at(in)] || wished_[at(in)].gathered) {
      any = true;
      continue;
    }
    const Shape& shape = global_.value(in).type.shape;
    const bool fits = node.op->elementwise() && shape == global_.value(node.out[0]).type.shape;
    if (!update && shape.rank() > 0 && (!fits || layouts_[at(in)].is_split())) return false;
  }
  return any;
}

// The variable has the type of this rank's piece.
void Partitioner::read_pieces(NodeId id, Layout layout) {
  const Node& node = global_.node(id);
  Graph& to = rewriter_.to();
  GraphVariable& variable = to.variables[at(source_index(node))];
  op::SourceAttrs source = node.attrs.as<op::SourceAttrs>();
  source.shape = variable.type.shape = local_shape(source.shape, layout, mesh_.first, layout.blocks);
  const NodeId made = rewriter_.emit(*node.op, {}, source, id);
  rewriter_.stands_for(id, made);
  const ValueId own = to.node(made).out[0];
  rewriter_.set(node.out[0], own);
  to.value(own).layouts = {Layout::split(layout.dim)};
  pieces(node.out[0]) = {own};
  layout_of(node.out[0]) = Layout::split(layout.dim);
  blocks(node.out[0]) = layout.blocks > 1 ? layout.blocks : 0;
  state_[at(node.out[0])] = layout.gathered;
}

// True if the node assigns to a variable stored in pieces.
bool Partitioner::keep_pieces(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "assign")) return false;
  const auto stored = stored_.find(source_index(node));
  if (stored == stored_.end()) return false;
  const Layout layout = stored->second;
  distribute(id, {{Layout::split(layout.dim)}, {}}, layout.blocks > 1 ? layout.blocks : 0);
  return true;
}

// Scatters partial operands that end in pieces and that the rule would have reduced whole. True if there were any.
bool Partitioner::scatter_operands(const Node& node, const ShardRule& rule) {
  bool any = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!can_scatter(node.in[i], 0, 0) || rule.in[i].is_partial()) continue;
    scatter(node.in[i]);
    any = true;
  }
  return any;
}

// True if a value is terms of a sum that ends in pieces along this dimension.
bool Partitioner::can_scatter(ValueId value, int dim, std::int64_t blocks) const {
  const Layout now = layouts_[at(value)], wished = wished_[at(value)];
  return wished.is_split(dim) && (wished.blocks > 1 ? wished.blocks : 0) == blocks && now.is_partial() &&
         (now.reduce == ReduceOp::sum || now.reduce == ReduceOp::mean);
}

// Exchange of the pieces of a value along its dimension 0, of so many rows in all.
op::PiecesAttrs Partitioner::exchange_of(ValueId value, std::int64_t rows) const {
  return {
      .rows = rows, .rank = mesh_.first, .ranks = mesh_.parts, .name = Symbol(label_of(value)), .group = mesh_.group};
}

// From here on this rank has its piece of the reduced value. A mean over fewer rows than ranks counts those that have
// any.
void Partitioner::scatter(ValueId value) {
  const NodeId like = global_.value(value).node;
  const bool mean = layout_of(value).reduce == ReduceOp::mean;
  const std::int64_t rows = rows_[at(value)];
  const Layout wished = wished_[at(value)];
  const std::int64_t in_blocks = wished.blocks > 1 ? wished.blocks : 0;
  const Shape& shape = global_.value(value).type.shape;
  ValueId term = pieces(value)[0];
  if (mean && rows < mesh_.parts) {
    const bool gives = piece_of(rows, mesh_.first, mesh_.parts).size > 0;
    term = times(term, gives ? 1.0 / static_cast<double>(rows) : 0.0, like);
  }
  const op::PiecesAttrs all = exchange_of(value, shape[wished.dim] / wished.blocks);
  ValueId own = emit("reduce_scatter", {with_first(term, wished.dim, in_blocks, like)}, all, like);
  own = with_first_back(own, shape, wished.dim, in_blocks, like);
  if (mean && rows >= mesh_.parts) own = times(own, 1.0 / mesh_.parts, like);
  rewriter_.to().value(own).layouts = {Layout::split(wished.dim)};
  pieces(value) = {own};
  layout_of(value) = Layout::split(wished.dim);
  blocks(value) = in_blocks;
  state_[at(value)] = wished.gathered;
}

Partitioner::Pieces Partitioner::gather_pieces(ValueId value, NodeId like) {
  Gather& known = gathers_[at(value)];
  const int number = static_cast<int>(last_use_.size());
  if (known.number >= 0 && number - known.number < kGathered) return known.whole;
  const ValueId own = pieces(value)[0];
  Graph& to = rewriter_.to();
  const NodeId made =
      rewriter_.emit(find_op("all_gather"), {&own, 1}, exchange_of(value, global_.value(value).type.shape[0]), like);
  const NodeId old = number >= kGathered ? last_use_[at(number - kGathered)] : -1;
  if (old >= 0) to.node(made).after.push_back(old);
  known = {.number = number, .whole = {to.node(made).out[0]}};
  gathered_as_[to.node(made).out[0]] = number;
  last_use_.push_back(-1);
  return known.whole;
}

void Partitioner::note_use(std::span<const ValueId> operands, NodeId user) {
  if (gathered_as_.empty()) return;
  for (ValueId operand : operands) {
    const auto found = gathered_as_.find(operand);
    if (found != gathered_as_.end()) last_use_[at(found->second)] = user;
  }
}

}  // namespace starling::graph
