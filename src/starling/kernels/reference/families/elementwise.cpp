#include <map>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/registry.h"

namespace starling {
namespace {

using reference::read;
using reference::write;
using IntegerFn = std::int64_t (*)(const std::int64_t*);
using Unsigned = std::uint64_t;

std::int64_t wrap(Unsigned value) { return static_cast<std::int64_t>(value); }

std::int64_t divide(const std::int64_t* x) {
  check(x[1] != 0, "[div] expected a divisor other than 0, got {} / 0", x[0]);
  return x[1] == -1 ? wrap(-static_cast<Unsigned>(x[0])) : x[0] / x[1];  // the least integer has no positive
}

// Ops whose result on 64-bit integers a double cannot hold.
IntegerFn integer_function(const std::string& op) {
  static const std::map<std::string, IntegerFn> functions = {
      {"add", [](const std::int64_t* x) { return wrap(static_cast<Unsigned>(x[0]) + static_cast<Unsigned>(x[1])); }},
      {"sub", [](const std::int64_t* x) { return wrap(static_cast<Unsigned>(x[0]) - static_cast<Unsigned>(x[1])); }},
      {"mul", [](const std::int64_t* x) { return wrap(static_cast<Unsigned>(x[0]) * static_cast<Unsigned>(x[1])); }},
      {"div", divide},
      {"neg", [](const std::int64_t* x) { return wrap(-static_cast<Unsigned>(x[0])); }},
      {"maximum", [](const std::int64_t* x) { return x[0] >= x[1] ? x[0] : x[1]; }},
      {"where", [](const std::int64_t* x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"equal", [](const std::int64_t* x) { return std::int64_t{x[0] == x[1]}; }},
      {"not_equal", [](const std::int64_t* x) { return std::int64_t{x[0] != x[1]}; }},
      {"less", [](const std::int64_t* x) { return std::int64_t{x[0] < x[1]}; }},
      {"less_equal", [](const std::int64_t* x) { return std::int64_t{x[0] <= x[1]}; }},
      {"greater", [](const std::int64_t* x) { return std::int64_t{x[0] > x[1]}; }},
      {"greater_equal", [](const std::int64_t* x) { return std::int64_t{x[0] >= x[1]}; }},
  };
  const auto it = functions.find(op);
  return it == functions.end() ? nullptr : it->second;
}

struct Operands {
  int count = 0;
  std::array<DType, 3> dtype{};
  std::array<Shape, 4> strides{};  // of the output last
};

template <class V, class Fn>
void run_elements(const Launch& launch, const Operands& of, const ArgDesc& out, Fn fn) {
  for_each_offset(out.shape, of.strides, [&](const std::array<std::int64_t, 4>& at) {
    V x[3] = {};
    for (std::size_t k = 0; k < static_cast<std::size_t>(of.count); ++k)
      x[k] = read<V>(of.dtype[k], launch.in[k], at[k]);
    write<V>(out.dtype, launch.out[0], at[3], fn(x));
  });
}

std::unique_ptr<Plan> plan(const PlanRequest& request) {
  const ArgDesc out = request.out[0];
  Operands of{.count = static_cast<int>(request.in.size())};
  of.strides.fill(Shape::filled(out.shape.rank(), 0));
  for (std::size_t k = 0; k < request.in.size(); ++k) {
    of.dtype[k] = request.in[k].dtype;
    of.strides[k] = broadcast_strides(request.in[k].shape, request.in[k].strides, out.shape);
  }
  of.strides[3] = out.strides;
  const auto scalar = request.op.scalar;
  const IntegerFn integer = is_float(request.in.back().dtype) ? nullptr : integer_function(request.op.name);
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

}  // namespace starling
