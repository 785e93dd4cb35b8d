#include "starling/ops/def/sharding/resplit.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

constexpr std::int64_t kMostRanksOfResplit = 1 << 16;
constexpr std::int64_t kMostElementsOfResplit = std::int64_t{1} << 46;  // times ranks is counted
constexpr std::int64_t kMostBlocksOfResplit = 1 << 16;                  // no elements divide into any number of blocks

void check_resplit(const op::ResplitAttrs& a, const TensorType& type) {
  check(a.ranks >= 1 && a.ranks <= kMostRanksOfResplit && a.rank >= 0 && a.rank < a.ranks,
        "[resplit] expected a rank of 1 to {}, got {} of {}", kMostRanksOfResplit, a.rank, a.ranks);
  const int rank = type.shape.rank();
  check(a.from >= 0 && a.from < rank && a.to >= 0 && a.to < rank, "[resplit] expected dimensions of {}, got {} and {}",
        to_string(type), a.from, a.to);
  check(a.size >= -1 && a.size <= kMostElementsOfResplit,
        "[resplit] expected a size of 0 to {}, or -1 for one that all ranks have, got {}", kMostElementsOfResplit,
        a.size);
  for (const std::int64_t blocks : {a.from_blocks, a.to_blocks})
    check(blocks >= 1 && blocks <= kMostBlocksOfResplit, "[resplit] expected 1 to {} blocks, got {}",
          kMostBlocksOfResplit, blocks);
}

Types infer_resplit(const InferCall& call) {
  check_resplit(call.attrs.as<op::ResplitAttrs>(), call.in[0]);
  const op::ResplitAttrs a = op::with_size(call.attrs.as<op::ResplitAttrs>(), call.in[0].shape);
  const int from = static_cast<int>(a.from), to = static_cast<int>(a.to);
  const auto own = [&](std::int64_t size, std::int64_t blocks) {
    check(size % blocks == 0, "[resplit] expected {} elements in equal blocks, got {}", size, blocks);
    return size_in_blocks(size, blocks, static_cast<int>(a.rank), static_cast<int>(a.ranks));
  };
  TensorType type = call.in[0];
  check(type.shape[from] == own(a.size, a.from_blocks), "[resplit] expected {} of {} elements on rank {} of {}, got {}",
        own(a.size, a.from_blocks), a.size, a.rank, a.ranks, type.shape[from]);
  type.shape[from] = a.size;
  type.shape[to] = own(type.shape[to], a.to_blocks);
  return {type};
}

// Pieces go back to where they came from.
TensorList grad_resplit(const GradCall& c) {
  op::ResplitAttrs back = op::with_size(c.attrs.as<op::ResplitAttrs>(), c.in[0].shape());
  back.size = back.from == back.to ? back.size : c.in[0].shape()[static_cast<int>(back.to)];
  std::swap(back.from, back.to);
  std::swap(back.from_blocks, back.to_blocks);
  return {apply1(c.op, {c.grads[0]}, back)};
}

std::vector<OpCase> resplit_cases() {
  using A = op::ResplitAttrs;
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{7, 2}, {0, 3}, {1, 4, 2}, {2, 33}})
    cases.push_back({{{.shape = shape}}, A{.from = 0, .to = 1}});
  cases.push_back({{{.shape = {2, 5}}}, A{.from = 0, .to = 1, .size = 6, .rank = 1, .ranks = 3}});
  cases.push_back({{{.shape = {3, 2, 4}}}, A{.from = 2, .to = 0, .size = 11, .rank = 1, .ranks = 3}});
  cases.push_back({{{.shape = {2, 6, 3}}},
                   A{.from = 0, .to = 1, .size = 4, .to_blocks = 3, .rank = 1, .ranks = 2, .name = Symbol("heads")}});
  cases.push_back({{{.shape = {3, 4}}}, A{.from = 0, .to = 0, .size = 6, .from_blocks = 3, .rank = 1, .ranks = 2}});
  cases.push_back({{{.shape = {3, 2}}}, A{.from = 1, .to = 1, .group = Symbol("model")}});
  return cases;
}

}  // namespace

void register_ops_resplit(OpRegistry& ops) {
  ops.add({.name = "resplit",
           .doc = "This rank's piece along one dimension of a tensor of which every rank has a piece along another.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ResplitAttrs>(),
           .infer = infer_resplit,
           .gradient = grad_resplit,
           .cases = resplit_cases,
           .saves = kSavesNothing,
           .comm = true,
           .cost = costs::moves(),
           .precision = Width::wide});
}

}  // namespace starling
