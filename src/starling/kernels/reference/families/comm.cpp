#include "starling/ops/api/comm.h"

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Collectives of a single rank; kernels of communicators come before these.
void expect_alone(const Launch& launch, const char* op) {
  check(launch.context.comm == nullptr, "[{}] expected the kernel of the communicator, got the one for a single rank",
        op);
}

std::unique_ptr<Plan> plan_all_reduce(const PlanRequest& request) {
  std::vector<std::size_t> bytes;
  for (const auto& in : request.in) bytes.push_back(bytes_of(in));
  return make_plan([bytes](const Launch& launch) {
    expect_alone(launch, "all_reduce");
    for (std::size_t i = 0; i < bytes.size(); ++i) copy_bytes(launch.out[i], launch.in[i], bytes[i]);
  });
}

std::unique_ptr<Plan> plan_ordered_sum(const PlanRequest& request) {
  const auto tensors = static_cast<std::size_t>(request.attrs.as<op::OrderedSumAttrs>().tensors);
  const std::size_t shards = request.in.size() / tensors;
  std::vector<std::int64_t> elements;
  for (std::size_t t = 0; t < tensors; ++t) elements.push_back(request.in[t * shards].shape.numel());
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      expect_alone(launch, "ordered_sum");
      for (std::size_t t = 0; t < tensors; ++t) {
        for (std::int64_t i = 0; i < elements[t]; ++i) {
          T sum = static_cast<const T*>(launch.in[t * shards])[i];
          for (std::size_t s = 1; s < shards; ++s) sum += static_cast<const T*>(launch.in[t * shards + s])[i];
          static_cast<T*>(launch.out[t])[i] = sum;
        }
      }
    });
  });
}

// Collectives with a root, on a single rank: a copy if this rank is the root, else zeros.
std::unique_ptr<Plan> plan_root(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RootAttrs>();
  const std::size_t bytes = bytes_of(request.in[0]);
  return make_plan([bytes, is_root = a.root == a.rank](const Launch& launch) {
    expect_alone(launch, "broadcast");
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
    const Piece piece = piece_of(arg.shape[0], static_cast<int>(a.rank), static_cast<int>(a.ranks));
    const std::size_t row = arg.shape[0] > 0 ? whole / static_cast<std::size_t>(arg.shape[0]) : 0;
    begin = static_cast<std::size_t>(piece.begin) * row;
    bytes = static_cast<std::size_t>(piece.size) * row;
  }
};

std::unique_ptr<Plan> plan_all_gather(const PlanRequest& request) {
  const OwnRows own(request.out[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    expect_alone(launch, "all_gather");
    zero_bytes(launch.out[0], own.whole);
    copy_bytes(static_cast<std::byte*>(launch.out[0]) + own.begin, launch.in[0], own.bytes);
  });
}

std::unique_ptr<Plan> plan_reduce_scatter(const PlanRequest& request) {
  const OwnRows own(request.in[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    expect_alone(launch, "reduce_scatter");
    copy_bytes(launch.out[0], static_cast<const std::byte*>(launch.in[0]) + own.begin, own.bytes);
  });
}

std::unique_ptr<Plan> plan_all_to_all(const PlanRequest& request) {
  const OwnRows own(request.in[0], request.attrs.as<op::PiecesAttrs>());
  return make_plan([own](const Launch& launch) {
    expect_alone(launch, "all_to_all");
    zero_bytes(launch.out[0], own.whole);
    copy_bytes(static_cast<std::byte*>(launch.out[0]) + own.begin,
               static_cast<const std::byte*>(launch.in[0]) + own.begin, own.bytes);
  });
}

}  // namespace

void register_reference_comm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("all_reduce", plan_all_reduce);
  add("all_reduce_many", plan_all_reduce);
  add("ordered_sum", plan_ordered_sum);
  add("broadcast", plan_root);
  add("reduce_to_root", plan_root);
  add("all_gather", plan_all_gather);
  add("reduce_scatter", plan_reduce_scatter);
  add("all_to_all", plan_all_to_all);
}

}  // namespace starling::kernels
