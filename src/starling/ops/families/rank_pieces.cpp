#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling {
namespace {

constexpr std::int64_t kMostRanks = 1 << 16;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;  // times a rank, still fits i64

op::RootAttrs here(const char* op, op::RootAttrs attrs) {
  attrs.rank = find_group(current_world(), attrs.group, op).rank;
  return attrs;
}

op::PiecesAttrs here(const char* op, op::PiecesAttrs attrs) {
  const WorldGroup group = find_group(current_world(), attrs.group, op);
  attrs.rank = group.rank;
  attrs.ranks = group.ranks;
  return attrs;
}

Types infer_root(const InferCall& call) {
  const auto& a = call.attrs.as<op::RootAttrs>();
  check(a.root >= 0 && a.rank >= 0 && a.root < kMostRanks && a.rank < kMostRanks,
        "[{}] expected a root and a rank in [0, {}), got {} and {}", call.op.name, kMostRanks, a.root, a.rank);
  return Types{call.in[0]};
}

const op::PiecesAttrs& checked_pieces(const InferCall& call) {
  const auto& a = call.attrs.as<op::PiecesAttrs>();
  check(a.ranks >= 1 && a.ranks <= kMostRanks, "[{}] expected 1 to {} ranks, got {}", call.op.name, kMostRanks,
        a.ranks);
  check(a.rank >= 0 && a.rank < a.ranks, "[{}] expected a rank in [0, {}), got {}", call.op.name, a.ranks, a.rank);
  check(a.rows <= kMostRows, "[{}] expected at most {} rows, got {}", call.op.name, kMostRows, a.rows);
  check(call.in[0].shape.rank() > 0, "[{}] expected a tensor with rows, got {}", call.op.name, to_string(call.in[0]));
  return a;
}

std::int64_t own_rows(std::int64_t rows, const op::PiecesAttrs& a) {
  return piece_of(rows, static_cast<int>(a.rank), static_cast<int>(a.ranks)).size;
}

Types infer_gather(const InferCall& call) {
  const op::PiecesAttrs& a = checked_pieces(call);
  TensorType type = call.in[0];
  const std::int64_t rows = a.rows < 0 ? type.shape[0] * a.ranks : a.rows;
  check(own_rows(rows, a) == type.shape[0], "[all_gather] expected {} of {} rows on rank {} of {}, got {}",
        own_rows(rows, a), rows, a.rank, a.ranks, type.shape[0]);
  type.shape[0] = rows;
  return {type};
}

Types infer_scatter(const InferCall& call) {
  const op::PiecesAttrs& a = checked_pieces(call);
  TensorType type = call.in[0];
  check(a.rows < 0 || a.rows == type.shape[0], "[reduce_scatter] expected {} rows, got {}", a.rows, type.shape[0]);
  check(a.reduce != ReduceOp::mean || is_float(type.dtype), "[reduce_scatter] expected floats for a mean, got {}",
        name(type.dtype));
  type.shape[0] = own_rows(type.shape[0], a);
  return {type};
}

Types infer_to_all(const InferCall& call) {
  const op::PiecesAttrs& a = checked_pieces(call);
  const std::int64_t rows = call.in[0].shape[0];
  check(rows % a.ranks == 0, "[all_to_all] expected rows in {} equal pieces, got {}", a.ranks, rows);
  check(a.rows < 0 || a.rows == rows, "[all_to_all] expected {} rows, got {}", a.rows, rows);
  return {call.in[0]};
}

Types infer_gather_rows(const InferCall& call) {
  const auto& a = call.attrs.as<op::PiecesAttrs>();
  check(!call.in.empty(), "[gather_rows] expected at least one tensor, got none");
  check(a.ranks >= 1 && a.ranks <= kMostRanks, "[gather_rows] expected 1 to {} ranks, got {}", kMostRanks, a.ranks);
  check(a.rank >= 0 && a.rank < a.ranks, "[gather_rows] expected a rank in [0, {}), got {}", a.ranks, a.rank);
  Types out;
  for (const auto& type : call.in) {
    check(type.shape.rank() > 0 && type.shape[0] == a.rows, "[gather_rows] expected tensors of {} rows, got {}", a.rows,
          to_string(type));
    out.push_back(type);
  }
  return out;
}

TensorList grad_scatter(const GradCall& c) {
  op::PiecesAttrs a = c.attrs.as<op::PiecesAttrs>();
  check(a.reduce == ReduceOp::sum || a.reduce == ReduceOp::mean,
        "[reduce_scatter] expected a sum or a mean to differentiate, got '{}'", name(a.reduce));
  a.rows = c.in[0].shape()[0];
  const Tensor all = apply1(named_op<"all_gather">(), {c.grads[0]}, a);
  return {a.reduce == ReduceOp::mean ? mul(all, 1.0 / static_cast<double>(a.ranks)) : all};
}

std::vector<OpCase> root_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{7}, {0}, {}, {2, 3}, {33}, {4, 1, 5}})
    cases.push_back({{{.shape = shape}}, op::RootAttrs{}});
  cases.push_back({{{.shape = {3, 2}}}, op::RootAttrs{1, 1, Symbol("weights")}});
  cases.push_back({{{.shape = {3}}}, op::RootAttrs{0, 1, Symbol()}});
  cases.push_back({{{.shape = {2}}}, op::RootAttrs{.group = Symbol("model")}});
  return cases;
}

// Sample calls: pieces of rank 1 of 3, and of a single rank. `gathers`: the operand is a piece, else the whole.
std::vector<OpCase> piece_cases(bool gathers, bool even) {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{7}, {0, 3}, {1}, {2, 3}, {33}, {4, 1, 5}})
    cases.push_back({{{.shape = shape}}, op::PiecesAttrs{}});
  const auto third = [&](std::int64_t rows, const char* name) {
    const std::int64_t own = gathers ? piece_of(rows, 1, 3).size : rows;
    return OpCase{{{.shape = {own, 2}}}, op::PiecesAttrs{.rows = rows, .rank = 1, .ranks = 3, .name = Symbol(name)}};
  };
  cases.push_back(third(6, "rows"));
  cases.push_back(third(even ? 9 : 8, ""));
  cases.push_back({{{.shape = {4, 2}}}, op::PiecesAttrs{.group = Symbol("model")}});
  return cases;
}

// Exchanges of pieces of several tensors at once. They have no gradients: what they join is differentiated before
// passes run.
const op::JoinedPiecesAttrs& checked_joined(const InferCall& call) {
  const auto& a = call.attrs.as<op::JoinedPiecesAttrs>();
  check(!call.in.empty(), "[{}] expected at least one tensor, got none", call.op.name);
  constexpr std::int64_t kMostRanksOfPieces = 1 << 16;  // rows of all of them are counted
  check(a.ranks >= 1 && a.ranks <= kMostRanksOfPieces && a.rank >= 0 && a.rank < a.ranks,
        "[{}] expected a rank of 1 to {}, got {} of {}", call.op.name, kMostRanksOfPieces, a.rank, a.ranks);
  check(a.rest >= 0 && a.rest < a.ranks, "[{}] expected fewer rows beyond a multiple than {} ranks, got {}",
        call.op.name, a.ranks, a.rest);
  for (const auto& type : call.in) {
    check(type.shape.rank() > 0, "[{}] expected tensors with rows, got {}", call.op.name, to_string(type));
    check(type.dtype == call.in[0].dtype, "[{}] expected tensors of one dtype, got {} and {}", call.op.name,
          name(call.in[0].dtype), name(type.dtype));
  }
  return a;
}

std::int64_t own_joined(std::int64_t rows, const op::JoinedPiecesAttrs& a) {
  return piece_of(rows, static_cast<int>(a.rank), static_cast<int>(a.ranks)).size;
}

Types infer_scatter_many(const InferCall& call) {
  const auto& a = checked_joined(call);
  Types out;
  for (TensorType type : call.in) {
    type.shape[0] = own_joined(type.shape[0], a);
    out.push_back(type);
  }
  return out;
}

Types infer_gather_many(const InferCall& call) {
  const auto& a = checked_joined(call);
  const std::int64_t beyond = own_joined(a.rest, a);
  Types out;
  for (TensorType type : call.in) {
    check(type.shape[0] >= beyond, "[all_gather_many] expected at least {} rows on rank {} of {}, got {}", beyond,
          a.rank, a.ranks, type.shape[0]);
    type.shape[0] = (type.shape[0] - beyond) * a.ranks + a.rest;
    out.push_back(type);
  }
  return out;
}

OpDef joined(const char* name, const char* doc, CostRule cost) {
  return OpDef{.name = name,
               .doc = doc,
               .inputs = {"xs..."},
               .outputs = {"ys"},
               .attrs = &attr_type<op::JoinedPiecesAttrs>(),
               .comm = true,
               .cost = std::move(cost),
               .precision = Width::wide};
}

}  // namespace

Tensor broadcast(const Tensor& x, op::RootAttrs attrs) {
  return apply1(named_op<"broadcast">(), {x}, here("broadcast", attrs));
}
Tensor reduce_to_root(const Tensor& x, op::RootAttrs attrs) {
  return apply1(named_op<"reduce_to_root">(), {x}, here("reduce_to_root", attrs));
}
Tensor all_gather(const Tensor& x, op::PiecesAttrs attrs) {
  return apply1(named_op<"all_gather">(), {x}, here("all_gather", attrs));
}
Tensor reduce_scatter(const Tensor& x, op::PiecesAttrs attrs) {
  return apply1(named_op<"reduce_scatter">(), {x}, here("reduce_scatter", attrs));
}
Tensor all_to_all(const Tensor& x, op::PiecesAttrs attrs) {
  return apply1(named_op<"all_to_all">(), {x}, here("all_to_all", attrs));
}

void register_ops_rank_pieces(OpRegistry& ops) {
  const auto rooted = [](const char* name, const char* doc, const CostRule& cost, auto gradient) {
    return OpDef{.name = name,
                 .doc = doc,
                 .inputs = {"x"},
                 .attrs = &attr_type<op::RootAttrs>(),
                 .infer = infer_root,
                 .gradient = gradient,
                 .cases = root_cases,
                 .saves = kSavesNothing,
                 .comm = true,
                 .inplace = 0,
                 .cost = cost,
                 .precision = Width::wide};
  };
  ops.add(rooted("broadcast", "The root's x, on every rank.", costs::moves(), [](const GradCall& c) {
    return TensorList{apply1(named_op<"reduce_to_root">(), {c.grads[0]}, c.attrs)};
  }));
  ops.add(rooted("reduce_to_root", "The sum of every rank's x on the root, zeros elsewhere.", costs::each(1),
                 [](const GradCall& c) { return TensorList{apply1(named_op<"broadcast">(), {c.grads[0]}, c.attrs)}; }));
  const auto pieces = [](const char* name, const char* doc, CostRule cost) {
    return OpDef{.name = name,
                 .doc = doc,
                 .inputs = {"x"},
                 .attrs = &attr_type<op::PiecesAttrs>(),
                 .saves = kSavesNothing,
                 .comm = true,
                 .cost = std::move(cost),
                 .precision = Width::wide};
  };
  OpDef gather = pieces("all_gather", "The rows of all ranks in rank order, on every rank.", costs::moves());
  gather.infer = infer_gather;
  gather.gradient = [](const GradCall& c) {
    op::PiecesAttrs a = c.attrs.as<op::PiecesAttrs>();
    a.reduce = ReduceOp::sum;
    a.rows = -1;
    return TensorList{apply1(named_op<"reduce_scatter">(), {c.grads[0]}, a)};
  };
  gather.cases = [] {
    auto cases = piece_cases(true, false);
    cases.push_back({{{.shape = {3}}}, op::PiecesAttrs{.reduce = ReduceOp::mean}});
    return cases;
  };
  ops.add(gather);
  OpDef scatter = pieces("reduce_scatter", "This rank's rows of the reduction of every rank's x.", costs::each(1));
  scatter.infer = infer_scatter;
  scatter.gradient = grad_scatter;
  scatter.cases = [] {
    auto cases = piece_cases(false, false);
    cases.push_back({{{.shape = {3}}}, op::PiecesAttrs{.reduce = ReduceOp::mean}});
    return cases;
  };
  ops.add(scatter);
  OpDef to_all =
      pieces("all_to_all", "Piece d of the rows to rank d; the result has a piece from every rank.", costs::moves());
  to_all.infer = infer_to_all;
  to_all.gradient = [](const GradCall& c) { return TensorList{apply1(c.op, {c.grads[0]}, c.attrs)}; };
  to_all.cases = [] {
    auto cases = piece_cases(false, true);
    cases.push_back({{{.shape = {3}}}, op::PiecesAttrs{.reduce = ReduceOp::mean}});
    return cases;
  };
  ops.add(to_all);
  ops.add(
      {.name = "gather_rows",
       .doc = "Whole tensors of which every rank brings its own rows, and gets the others'.",
       .inputs = {"xs..."},
       .outputs = {"ys"},
       .attrs = &attr_type<op::PiecesAttrs>(),
       .infer = infer_gather_rows,
       .cases =
           [] {
             return std::vector<OpCase>{
                 {{{.shape = {7, 3}}, {.shape = {7}}}, op::PiecesAttrs{.rows = 7}},
                 {{{.shape = {0, 2}}}, op::PiecesAttrs{.rows = 0}},
                 {{{.shape = {5}}}, op::PiecesAttrs{.rows = 5, .group = Symbol("data")}},
                 {{{.shape = {4, 2}}},
                  op::PiecesAttrs{.reduce = ReduceOp::mean, .rows = 4, .rank = 1, .ranks = 3, .name = Symbol("rows")}}};
           },
       .comm = true,
       .inplace = 0,
       .cost = costs::moves(),
       .precision = Width::wide});
  OpDef scatters = joined("reduce_scatter_many", "This rank's rows of the sums of several tensors, by one exchange.",
                          costs::each(1));
  scatters.infer = infer_scatter_many;
  scatters.cases = [] {
    return std::vector<OpCase>{
        {{{.shape = {7}}, {.shape = {2, 3}}, {.shape = {4, 1, 5}}}, op::JoinedPiecesAttrs{}},
        {{{.shape = {0, 2}}, {.shape = {5}}},
         op::JoinedPiecesAttrs{.rest = 2, .rank = 1, .ranks = 3, .name = Symbol("bucket")}},
        {{{.shape = {8, 2}}, {.shape = {6}}}, op::JoinedPiecesAttrs{.ranks = 2, .group = Symbol("data")}}};
  };
  ops.add(scatters);
  OpDef gathers =
      joined("all_gather_many", "The rows of all ranks of several tensors, by one exchange.", costs::moves());
  gathers.infer = infer_gather_many;
  gathers.cases = [] {
    return std::vector<OpCase>{
        {{{.shape = {7}}, {.shape = {2, 3}}, {.shape = {4, 1, 5}}}, op::JoinedPiecesAttrs{}},
        {{{.shape = {0, 2}}, {.shape = {5}}}, op::JoinedPiecesAttrs{.rank = 1, .ranks = 3, .name = Symbol("bucket")}},
        {{{.shape = {3, 2}}, {.shape = {1}}},
         op::JoinedPiecesAttrs{.rest = 2, .rank = 1, .ranks = 3, .group = Symbol("data")}}};
  };
  ops.add(gathers);
}

}  // namespace starling
