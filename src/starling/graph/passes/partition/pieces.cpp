// Variables of which every rank stores a piece: reading, updating and gathering them.
#include <algorithm>
#include <set>

#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/attrs/update.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"

namespace starling::graph {
namespace {

// Gathered values are kept until the next ones are gathered, then dropped and gathered again where they are needed once
// more; and a gather waits until what the one before the last brought has been used. So the results of at most so many
// are alive, and one is under way while another is used.
constexpr int kGathered = 2;

// Larger tensors are gathered alone: copying them costs more than an exchange.
constexpr std::size_t kAlone = 1 << 20;
// A gather takes at most this part of all that is stored in pieces, or so few bytes that their exchange
// takes no longer than its start.
constexpr std::size_t kParts = 8;
constexpr std::size_t kFew = 256 << 10;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// True if the variable of this read is assigned by an earlier node.
bool assigned_before(const Graph& graph, NodeId read) {
  for (NodeId id = 0; id < read; ++id) {
    if (is_op(graph.node(id), "assign") && source_index(graph.node(id)) == source_index(graph.node(read))) return true;
  }
  return false;
}

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
  if (mesh_.ordered) stored_.clear();  // whole for logical shards; the pass partition makes pieces afterwards
  if (stored_.empty()) return;
  check(mesh_.count == 1, "[partition] expected one piece for each rank where state is split, got {}", mesh_.count);
  for (NodeId id = global_.size() - 1; id >= 0; --id) wish(global_.node(id));
  plan_gathers();
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
  if (mesh_.shards_done && !update && !node.op->elementwise() && !is_op(node, "identity")) return false;
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

// True for nodes that are expected to compute on the pieces themselves, as takes_pieces() finds when layouts are known.
bool Partitioner::fits_pieces(const Node& node, const std::vector<bool>& state) const {
  if (is_op(node, "assign")) return true;
  if (is_control(*node.op) || node.op->comm || (node.op->view && !is_op(node, "identity"))) return false;
  if (op::update_operands(*node.op, node.attrs)) return true;
  if (mesh_.shards_done && !node.op->elementwise() && !is_op(node, "identity")) return false;
  return std::all_of(node.in.begin(), node.in.end(), [&](ValueId in) {
    const Shape& shape = global_.value(in).type.shape;
    return state[at(in)] || shape.rank() == 0 ||
           (node.op->elementwise() && shape == global_.value(node.out[0]).type.shape);
  });
}

// Where state in pieces is needed whole, in the order of the program.
void Partitioner::plan_gathers() {
  users_ = global_.users();
  std::vector<bool> state(global_.values().size());
  std::set<ValueId> needed;
  std::size_t bytes = 0;
  for (NodeId id = 0; id < global_.size(); ++id) {
    const Node& node = global_.node(id);
    if (is_op(node, "variable")) {
      const auto stored = stored_.find(source_index(node));
      state[at(node.out[0])] = stored != stored_.end() && stored->second.gathered;
    }
    if (std::none_of(node.in.begin(), node.in.end(), [&](ValueId in) { return state[at(in)]; })) continue;
    if (fits_pieces(node, state)) {
      for (ValueId out : node.out) state[at(out)] = true;
      continue;
    }
    for (ValueId in : node.in) {
      if (!state[at(in)]) continue;
      whole_uses_.push_back({id, in});
      if (needed.insert(in).second) bytes += bytes_of(global_.value(in).type);
    }
  }
  together_ = std::min(mesh_.bucket_bytes, std::max(bytes / kParts, kFew));
}

// A value and those that are needed whole next, as far as they are small.
std::vector<ValueId> Partitioner::gathered_with(ValueId value) const {
  std::vector<ValueId> values{value};
  std::size_t bytes = bytes_of(global_.value(value).type);
  for (const WholeUse& use : whole_uses_) {
    if (use.node < now_ || std::find(values.begin(), values.end(), use.value) != values.end()) continue;
    const std::size_t more = bytes_of(global_.value(use.value).type);
    const bool made = state_[at(use.value)] && layouts_[at(use.value)].is_split(0);
    if (!made || std::max(bytes, more) >= kAlone || bytes + more > together_) break;
    values.push_back(use.value);
    bytes += more;
  }
  return values;
}

// True for values that are gathered into a variable, which has memory for the whole: any number may be.
bool Partitioner::is_stored_whole(ValueId value) const {
  const auto& users = users_[at(value)];
  return std::all_of(users.begin(), users.end(), [&](NodeId user) { return is_op(global_.node(user), "assign"); });
}

Partitioner::Pieces Partitioner::gather_pieces(ValueId value, NodeId like) {
  const int number = static_cast<int>(last_use_.size());
  const Gather& known = gathers_[at(value)];
  if (known.number >= 0 && number - known.number < kGathered) return known.whole;
  if (is_stored_whole(value)) {
    const op::PiecesAttrs all = exchange_of(value, global_.value(value).type.shape[0]);
    return whole_[at(value)] = {emit("all_gather", {pieces(value)[0]}, all, like)};
  }
  // A weight gathered along with others is read before its turn, unless something is assigned to it first.
  for (const WholeUse& use : whole_uses_) {
    const NodeId read = global_.value(use.value).node;
    if (read > now_ && is_op(global_.node(read), "variable") && pieces(use.value).empty() &&
        !assigned_before(global_, read))
      source(read);
  }
  const NodeId old = number >= kGathered ? last_use_[at(number - kGathered)] : -1;
  std::vector<ValueId> open = gathered_with(value);
  while (!open.empty()) {  // one exchange for all of a dtype whose rows are split alike
    const TensorType& first = global_.value(open[0]).type;
    const auto joins = [&](ValueId other) {
      const TensorType& type = global_.value(other).type;
      return type.dtype == first.dtype && type.shape[0] % mesh_.parts == first.shape[0] % mesh_.parts;
    };
    const auto rest = std::stable_partition(open.begin(), open.end(), joins);
    gather_together({open.data(), static_cast<std::size_t>(rest - open.begin())}, old, like);
    open.erase(open.begin(), rest);
  }
  last_use_.push_back(-1);
  return known.whole;
}

void Partitioner::gather_together(std::span<const ValueId> values, NodeId after, NodeId like) {
  const int number = static_cast<int>(last_use_.size());
  const op::PiecesAttrs one = exchange_of(values[0], global_.value(values[0]).type.shape[0]);
  op::JoinedPiecesAttrs all = op::JoinedPiecesAttrs::of_gather(one);
  all.name = Symbol(fmt::format("{} and {} more", one.name.str(), values.size() - 1));
  SmallVector<ValueId, 4> own;
  for (ValueId value : values) own.push_back(pieces(value)[0]);
  Graph& to = rewriter_.to();
  const NodeId made = values.size() == 1
                          ? rewriter_.emit(find_op("all_gather"), {own.data(), 1}, one, like)
                          : rewriter_.emit(find_op("all_gather_many"), {own.data(), own.size()}, all, like);
  if (after >= 0) to.node(made).after.push_back(after);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ValueId whole = to.node(made).out[i];
    gathers_[at(values[i])] = {.number = number, .whole = {whole}};
    gathered_as_[whole] = number;
  }
}

void Partitioner::note_use(std::span<const ValueId> operands, NodeId user) {
  if (gathered_as_.empty()) return;
  for (ValueId operand : operands) {
    const auto found = gathered_as_.find(operand);
    if (found != gathered_as_.end()) last_use_[at(found->second)] = user;
  }
}

}  // namespace starling::graph
