#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

using reference::read;
using reference::write;
struct Operands {
  int count = 0;
  Numbers attributes{};
  std::array<DType, 3> dtype{};
  std::array<Shape, 4> strides{};  // output last
};

template <class V, class Fn>
void run_elements(const Launch& launch, const Operands& of, const ArgDesc& out, Fn fn) {
  for_each_offset(out.shape, of.strides, [&](const std::array<std::int64_t, 4>& at) {
    V x[8] = {};
    const auto count = static_cast<std::size_t>(of.count);
    for (std::size_t k = 0; k < count; ++k) x[k] = read<V>(of.dtype[k], launch.in[k], at[k]);
    for (std::size_t k = 0; k < of.attributes.size(); ++k) x[count + k] = reference::convert<V>(of.attributes[k]);
    write<V>(out.dtype, launch.out[0], at[3], fn(x));
  });
}

std::unique_ptr<Plan> plan(const PlanRequest& request) {
  const ArgDesc out = request.out[0];
  Operands of{.count = static_cast<int>(request.in.size()), .attributes = numbers_of(request.attrs)};
  of.strides.fill(Shape::filled(out.shape.rank(), 0));
  for (std::size_t k = 0; k < request.in.size(); ++k) {
    of.dtype[k] = request.in[k].dtype;
    of.strides[k] = broadcast_strides(request.in[k].shape, request.in[k].strides, out.shape);
  }
  of.strides[3] = out.strides;
  const auto scalar = request.op.scalar;
  const auto integer = is_float(request.in.back().dtype) ? nullptr : request.op.integer;
  return make_plan([=](const Launch& launch) {
    if (integer)
      run_elements<std::int64_t>(launch, of, out, integer);
    else
      run_elements<double>(launch, of, out, scalar);
  });
}

}  // namespace

void register_reference_elementwise(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->elementwise()) table.add(op->name, DeviceKind::cpu, reference::kernel(Accepts::strided, plan));
  }
}

}  // namespace starling::kernels
