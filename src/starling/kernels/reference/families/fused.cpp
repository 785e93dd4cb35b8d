#include "starling/ops/def/attrs/fused.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {
namespace {

// Rounds a step's value to its dtype, as the separate ops would.
double rounded(DType dtype, double value) {
  return dispatch(dtype, [&]<class T>() { return reference::convert<double>(reference::convert<T>(value)); });
}

// Programs without reductions, element by element.
std::unique_ptr<Plan> plan_elements(const PlanRequest& request, const FusedProgram& program) {
  std::vector<TensorType> in;
  for (const auto& arg : request.in) in.push_back({arg.dtype, arg.shape});
  const auto types = program.infer(in);
  const Shape shape = fused_shape(in);  // outputs may have lost sizes of 1
  std::vector<Shape> strides;
  for (const auto& arg : request.in) strides.push_back(broadcast_strides(arg.shape, arg.strides, shape));
  return make_plan(types.size() * sizeof(double), [=, &program](const Launch& launch) {
    auto* values = static_cast<double*>(launch.scratch);
    const Shape dense = contiguous_strides(shape);
    for_each_offset(shape, std::array<Shape, 1>{dense}, [&](const std::array<std::int64_t, 1>& at) {
      const auto operands = static_cast<std::size_t>(program.operands);
      for (std::size_t k = 0; k < operands; ++k) {
        std::int64_t place = 0, rest = at[0];
        for (int d = 0; d < shape.rank(); ++d) {
          place += rest / dense[d] * strides[k][d];
          rest %= dense[d];
        }
        values[k] = reference::read<double>(types[k].dtype, launch.in[k], place);
      }
      for (std::size_t s = 0; s < program.steps.size(); ++s) {
        double x[8] = {};
        std::size_t n = 0;
        for (int value : program.steps[s].in) x[n++] = values[value];
        for (double attribute : program.steps[s].attributes) x[n++] = attribute;
        values[operands + s] =
            rounded(types[operands + s].dtype, program.steps[s].stretches() ? x[0] : program.steps[s].op->scalar(x));
      }
      for (std::size_t o = 0; o < program.outputs.size(); ++o) {
        const int value = program.outputs[o];
        reference::write<double>(types[static_cast<std::size_t>(value)].dtype, launch.out[o], at[0], values[value]);
      }
    });
  });
}

// Programs with reductions: whole values in scratch, one after another.
struct Arrays {
  const FusedProgram* program;
  std::vector<TensorType> types{};
  std::vector<Shape> strides{};      // of operands, over their own shape
  std::vector<std::size_t> begin{};  // offset of each value in scratch, in doubles
  std::vector<bool> below{};
  Shape whole{};

  // Strides with which a step over the shape `over` reads a value.
  Shape seen(int value, const Shape& over) const {
    const auto& type = types[static_cast<std::size_t>(value)];
    return broadcast_strides(type.shape, contiguous_strides(type.shape), over);
  }
  Shape input_shape(const FusedStep& step) const {
    const auto at = static_cast<std::size_t>(step.in[0]);
    return below[at] ? types[at].shape : whole;
  }

  void read(double* scratch, std::size_t k, const void* data) const {
    const std::array<Shape, 2> at{strides[k], contiguous_strides(types[k].shape)};
    for_each_offset(types[k].shape, at, [&](const std::array<std::int64_t, 2>& place) {
      scratch[begin[k] + static_cast<std::size_t>(place[1])] = reference::read<double>(types[k].dtype, data, place[0]);
    });
  }

  void reduce(double* scratch, const FusedStep& step, std::size_t made) const {
    const auto& [dtype, shape] = types[made];
    double* out = scratch + begin[made];
    const double* x = scratch + begin[static_cast<std::size_t>(step.in[0])];
    const std::string& name = step.op->name;
    const double none = name == "prod" ? 1 : name == "max" ? -HUGE_VAL : name == "min" ? HUGE_VAL : 0.0;
    std::fill_n(out, shape.numel(), none);
    const Shape from = input_shape(step);
    const std::array<Shape, 2> at{seen(step.in[0], from), broadcast_strides(shape, contiguous_strides(shape), from)};
    for_each_offset(from, at, [&](const std::array<std::int64_t, 2>& place) {
      double& total = out[place[1]];
      const double v = x[place[0]];
      if (name == "prod")
        total *= v;
      else if (name == "max")
        total = v > total || v != v ? v : total;
      else if (name == "min")
        total = v < total || v != v ? v : total;
      else
        total += v;
    });
    const double count = static_cast<double>(from.numel()) / static_cast<double>(shape.numel());
    for (std::int64_t i = 0; i < shape.numel(); ++i) out[i] = rounded(dtype, name == "mean" ? out[i] / count : out[i]);
  }

  void map(double* scratch, const FusedStep& step, std::size_t made) const {
    const DType dtype = types[made].dtype;
    const Shape& shape = types[made].shape;
    const Shape dense = contiguous_strides(shape);
    std::array<Shape, 4> at{dense, dense, dense, dense};
    for (std::size_t k = 0; k < step.in.size(); ++k) at[k + 1] = seen(step.in[k], shape);
    for_each_offset(shape, at, [&](const std::array<std::int64_t, 4>& place) {
      double x[8] = {};
      std::size_t n = 0;
      for (int value : step.in)
        x[n] = scratch[begin[static_cast<std::size_t>(value)] + static_cast<std::size_t>(place[n + 1])], ++n;
      for (double attribute : step.attributes) x[n++] = attribute;
      scratch[begin[made] + static_cast<std::size_t>(place[0])] =
          rounded(dtype, step.stretches() ? x[0] : step.op->scalar(x));
    });
  }

  void run(const Launch& launch) const {
    auto* scratch = static_cast<double*>(launch.scratch);
    const auto operands = static_cast<std::size_t>(program->operands);
    for (std::size_t k = 0; k < operands; ++k) read(scratch, k, launch.in[k]);
    for (std::size_t s = 0; s < program->steps.size(); ++s) {
      const FusedStep& step = program->steps[s];
      step.reduces() ? reduce(scratch, step, operands + s) : map(scratch, step, operands + s);
    }
    for (std::size_t o = 0; o < program->outputs.size(); ++o) {
      const auto value = static_cast<std::size_t>(program->outputs[o]);
      const Shape shape = below[value] ? types[value].shape : whole;
      const std::array<Shape, 2> at{seen(program->outputs[o], shape), contiguous_strides(shape)};
      for_each_offset(shape, at, [&](const std::array<std::int64_t, 2>& place) {
        reference::write<double>(types[value].dtype, launch.out[o], place[1],
                                 scratch[begin[value] + static_cast<std::size_t>(place[0])]);
      });
    }
  }
};

std::unique_ptr<Plan> plan_arrays(const PlanRequest& request, const FusedProgram& program) {
  std::vector<TensorType> in;
  Arrays arrays{&program};
  for (const auto& arg : request.in) {
    in.push_back({arg.dtype, arg.shape});
    arrays.strides.push_back(arg.strides);
  }
  arrays.types = program.infer(in);
  arrays.below = program.reduced();
  arrays.whole = fused_shape(in);
  std::size_t doubles = 0;
  for (const auto& type : arrays.types) {
    arrays.begin.push_back(doubles);
    doubles += static_cast<std::size_t>(type.shape.numel());
  }
  return make_plan(doubles * sizeof(double), [arrays](const Launch& launch) { arrays.run(launch); });
}

std::unique_ptr<Plan> plan_fused(const PlanRequest& request) {
  const FusedProgram& program = fused_program(request.attrs.as<op::FusedAttrs>().program);
  return program.reduces() ? plan_arrays(request, program) : plan_elements(request, program);
}

}  // namespace

void register_reference_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_fused));
}

}  // namespace starling::kernels
