#include "starling/ops/def/sharding/halo.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/dtype_limits.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

constexpr std::int64_t kMostRanksOfHalo = 1 << 16, kMostRowsOfHalo = std::int64_t{1} << 31;

void check_halo(const InferCall& call) {
  const auto& a = call.attrs.as<op::HaloAttrs>();
  const char* who = call.op.name.c_str();
  check(a.ranks >= 1 && a.ranks <= kMostRanksOfHalo && a.rank >= 0 && a.rank < a.ranks,
        "[{}] expected a rank of 1 to {}, got {} of {}", who, kMostRanksOfHalo, a.rank, a.ranks);
  check(a.dim >= 0 && a.dim < call.in[0].shape.rank(), "[{}] expected a dimension of {}, got {}", who,
        to_string(call.in[0]), a.dim);
  const auto fits = [](std::int64_t one, std::int64_t least) { return one >= least && one < kMostRowsOfHalo; };
  check(fits(a.size, 0) && fits(a.windows, 0) && fits(a.before, 0) && fits(a.stride, 1) && fits(a.extent, 1),
        "[{}] expected a size, windows and rows before of at least 0, stride and extent of at least 1, below 2^31, got "
        "{}, {}, {}, {} and {}",
        who, a.size, a.windows, a.before, a.stride, a.extent);
}

// The operand with another number of rows.
Types with_rows(const InferCall& call, std::int64_t rows, std::int64_t made) {
  const auto& a = call.attrs.as<op::HaloAttrs>();
  TensorType type = call.in[0];
  std::int64_t& size = type.shape[static_cast<int>(a.dim)];
  check(size == rows, "[{}] expected {} rows along dimension {} on rank {} of {}, got {}", call.op.name, rows, a.dim,
        a.rank, a.ranks, size);
  size = made;
  return {type};
}

Types infer_halo(const InferCall& call) {
  check_halo(call);
  const auto& a = call.attrs.as<op::HaloAttrs>();
  check(holds(call.in[0].dtype, a.fill), "[halo] expected a fill that {} holds, got {}", name(call.in[0].dtype),
        a.fill);
  return with_rows(call, op::rows_stored(a, a.rank).size, op::rows_seen(a, a.rank).size);
}

Types infer_halo_add(const InferCall& call) {
  rules::expect_float(call);
  check_halo(call);
  const auto& a = call.attrs.as<op::HaloAttrs>();
  return with_rows(call, op::rows_seen(a, a.rank).size, op::rows_stored(a, a.rank).size);
}

TensorList grad_halo(const GradCall& c) {
  op::HaloAttrs back = c.attrs.as<op::HaloAttrs>();
  back.fill = 0;
  return {apply1(named_op<"halo_add">(), {c.grads[0]}, back)};
}

TensorList grad_halo_add(const GradCall& c) {
  op::HaloAttrs back = c.attrs.as<op::HaloAttrs>();
  back.fill = 0;
  return {apply1(named_op<"halo">(), {c.grads[0]}, back)};
}

// Sample calls, by the shape of the piece; that of the rows seen if the op goes back.
std::vector<OpCase> halo_cases(bool back) {
  std::vector<OpCase> cases;
  const auto add = [&](Shape shape, const op::HaloAttrs& a) {
    const int dim = static_cast<int>(a.dim);
    shape[dim] = (back ? op::rows_seen(a, a.rank) : op::rows_stored(a, a.rank)).size;
    cases.push_back({{{.shape = shape}}, a});
  };
  const Symbol label("conv1"), group("height");
  add({2, 3, 0, 5}, {.dim = 2, .size = 6, .windows = 4, .extent = 3});
  add({0, 2}, {.size = 7, .windows = 7, .before = 1, .extent = 3, .fill = 1.5});
  add({1, 1, 0, 4}, {.dim = 2, .size = 9, .windows = 5, .stride = 2, .before = 2, .extent = 4, .rank = 1, .ranks = 2});
  add({2, 0, 3}, {.dim = 1, .size = 8, .windows = 4, .stride = 2, .extent = 2, .rank = 2, .ranks = 3, .name = label});
  add({0, 33}, {.size = 10, .windows = 3, .stride = 4, .extent = 2, .group = group});
  add({3, 0}, {.dim = 1, .size = 2, .windows = 2, .before = 3, .extent = 7, .fill = -2, .rank = 1, .ranks = 2});
  add({0, 0}, {.dim = 1, .size = 2, .windows = 2, .rank = 2, .ranks = 3});
  add({2, 0}, {.dim = 1, .size = 5, .windows = 7, .before = 2, .extent = 3, .rank = 3, .ranks = 4});
  return cases;
}

OpDef halo_op(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::HaloAttrs>(),
          .saves = kSavesNothing,
          .comm = true,
          .cost = costs::moves(),
          .precision = Width::as_given};
}

}  // namespace

void register_ops_halo(OpRegistry& ops) {
  OpDef halo = halo_op("halo", "Rows of a tensor in pieces that this rank's windows look at, from their owners.");
  halo.infer = infer_halo;
  halo.gradient = grad_halo;
  halo.cases = [] { return halo_cases(false); };
  ops.add(std::move(halo));
  OpDef back =
      halo_op("halo_add", "This rank's piece of a tensor: the sum of what windows of all ranks have for its rows.");
  back.infer = infer_halo_add;
  back.gradient = grad_halo_add;
  back.cases = [] { return halo_cases(true); };
  ops.add(std::move(back));
}

}  // namespace starling
