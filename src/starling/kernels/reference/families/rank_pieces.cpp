#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/single_rank.h"
#include "starling/ops/api/comm.h"

namespace starling::kernels {
namespace {

// Collectives with a root, on a single rank: a copy if this rank is the root, else zeros.
std::unique_ptr<Plan> plan_root(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RootAttrs>();
  const std::size_t bytes = bytes_of(request.in[0]);
  return make_plan([bytes, is_root = a.root == a.rank](const Launch& launch) {
    reference::expect_alone(launch, "broadcast");
    if (is_root)
      copy_bytes(launch.out[0], launch.in[0], bytes);
    else
      zero_bytes(launch.out[0], bytes);
  });
}

// Rows of this rank within a whole tensor: offset and size in bytes.
struct OwnRows {
  std::size_t begin = 0, bytes = 0, whole = 0;
  OwnRows(const ArgDesc& arg, const op::PiecesAttrs& a) : whole(bytes_of(arg)) {
    const starling::Piece piece = piece_of(arg.shape[0], static_cast<int>(a.rank), static_cast<int>(a.ranks));
    const std::size_t row = arg.shape[0] > 0 ? whole / static_cast<std::size_t>(arg.shape[0]) : 0;
    begin = static_cast<std::size_t>(piece.begin) * row;
    bytes = static_cast<std::size_t>(piece.size) * row;
  }
};

std::unique_ptr<Plan> plan_all_gather(const PlanRequest& request) {
  const OwnRows own(request.out[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    reference::expect_alone(launch, "all_gather");
    zero_bytes(launch.out[0], own.whole);
    copy_bytes(static_cast<std::byte*>(launch.out[0]) + own.begin, launch.in[0], own.bytes);
  });
}

std::unique_ptr<Plan> plan_reduce_scatter(const PlanRequest& request) {
  const OwnRows own(request.in[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    reference::expect_alone(launch, "reduce_scatter");
    copy_bytes(launch.out[0], static_cast<const std::byte*>(launch.in[0]) + own.begin, own.bytes);
  });
}

std::unique_ptr<Plan> plan_all_to_all(const PlanRequest& request) {
  const OwnRows own(request.in[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    reference::expect_alone(launch, "all_to_all");
    zero_bytes(launch.out[0], own.whole);
    copy_bytes(static_cast<std::byte*>(launch.out[0]) + own.begin,
               static_cast<const std::byte*>(launch.in[0]) + own.begin, own.bytes);
  });
}

// Gather on a single rank, which has all rows.
std::unique_ptr<Plan> plan_gather_rows(const PlanRequest& request) {
  std::vector<std::size_t> bytes;
  for (const auto& in : request.in) bytes.push_back(bytes_of(in));
  return make_plan([bytes](const Launch& launch) {
    reference::expect_alone(launch, "gather_rows");
    for (std::size_t i = 0; i < bytes.size(); ++i) copy_bytes(launch.out[i], launch.in[i], bytes[i]);
  });
}

std::vector<OwnRows> rows_of(std::span<const ArgDesc> whole, const op::JoinedPiecesAttrs& a) {
  std::vector<OwnRows> rows;
  for (const auto& one : whole) rows.emplace_back(one, op::PiecesAttrs{.rank = a.rank, .ranks = a.ranks});
  return rows;
}

std::unique_ptr<Plan> plan_reduce_scatter_many(const PlanRequest& request) {
  const auto own = rows_of(request.in, request.attrs.as<op::JoinedPiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    reference::expect_alone(launch, "reduce_scatter_many");
    for (std::size_t i = 0; i < own.size(); ++i)
      copy_bytes(launch.out[i], static_cast<const std::byte*>(launch.in[i]) + own[i].begin, own[i].bytes);
  });
}

std::unique_ptr<Plan> plan_all_gather_many(const PlanRequest& request) {
  const auto own = rows_of(request.out, request.attrs.as<op::JoinedPiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    reference::expect_alone(launch, "all_gather_many");
    for (std::size_t i = 0; i < own.size(); ++i) {
      zero_bytes(launch.out[i], own[i].whole);
      copy_bytes(static_cast<std::byte*>(launch.out[i]) + own[i].begin, launch.in[i], own[i].bytes);
    }
  });
}

}  // namespace

void register_reference_rank_pieces(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("broadcast", plan_root);
  add("reduce_to_root", plan_root);
  add("all_gather", plan_all_gather);
  add("reduce_scatter", plan_reduce_scatter);
  add("reduce_scatter_many", plan_reduce_scatter_many);
  add("all_gather_many", plan_all_gather_many);
  add("all_to_all", plan_all_to_all);
  add("gather_rows", plan_gather_rows);
}

}  // namespace starling::kernels
