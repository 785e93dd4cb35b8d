#include "starling/kernels/cuda/elementwise.h"

#include <map>

#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/strides.h"

namespace starling::cuda {
namespace {

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::i64: return "long long";
    case DType::i32: return "int";
    case DType::u8: return "unsigned char";
    case DType::boolean: return "bool";
    default: return nullptr;
  }
}

// Registered expressions: filled while the kernel table is built, read-only afterwards.
std::map<std::string, std::string, std::less<>>& expressions() {
  static auto& map = *new std::map<std::string, std::string, std::less<>>;
  return map;
}

std::string value_name(int value) { return fmt::format("v{}", value); }

DType dtype_of_value(const Chain& chain, int value) {
  const auto i = static_cast<std::size_t>(value);
  return i < chain.operands.size() ? chain.operands[i].dtype : chain.steps[i - chain.operands.size()].dtype;
}

// One function per step, so that names in expressions cannot clash.
std::string step_function(const Chain& chain, std::size_t s) {
  const Chain::Step& step = chain.steps[s];
  std::string parameters;
  for (std::size_t i = 0; i < step.in.size(); ++i) {
    parameters += fmt::format("{}{} {}", i ? ", " : "", c_type(dtype_of_value(chain, step.in[i])), "abc"[i]);
  }
  const DType type = step.in.empty() ? step.dtype : dtype_of_value(chain, step.in.back());
  return fmt::format("static __device__ __forceinline__ {0} f{1}({2}) {{ typedef {3} T; return ({0})({4}); }}\n",
                     c_type(step.dtype), s, parameters, c_type(type), step.expression);
}

bool is_linear(const Chain& chain, const Shape& strides) { return is_contiguous(chain.shape, strides); }

// Code for the offset of an operand's element: sum of coordinate times stride.
std::string place(const Chain& chain, const Shape& strides) {
  if (is_linear(chain, strides)) return "i";
  std::string text;
  for (int d = 0; d < strides.rank(); ++d) {
    if (strides[d] == 0 || chain.shape[d] == 1) continue;
    text += fmt::format("{}x{} * {}", text.empty() ? "" : " + ", d, strides[d]);
  }
  return text.empty() ? "0" : text;
}

// Coordinates x0, x1, … of element i, where an operand needs them.
std::string coordinates(const Chain& chain) {
  bool needed = false;
  for (const auto& operand : chain.operands) needed |= !is_linear(chain, operand.strides);
  std::string text;
  if (!needed) return text;
  text += "    Index r = i;\n";
  for (int d = chain.shape.rank() - 1; d >= 0; --d) {
    text += fmt::format("    const Index x{0} = r % {1}; r /= {1};\n", d, chain.shape[d]);
  }
  return text;
}

std::string element_code(const Chain& chain) {
  std::string text = coordinates(chain);
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    text += fmt::format("    const {} v{} = a{}[{}];\n", c_type(chain.operands[k].dtype), k, k,
                        place(chain, chain.operands[k].strides));
  }
  for (std::size_t s = 0; s < chain.steps.size(); ++s) {
    std::string arguments;
    for (int value : chain.steps[s].in) arguments += (arguments.empty() ? "" : ", ") + value_name(value);
    text += fmt::format("    const {} v{} = f{}({});\n", c_type(chain.steps[s].dtype), chain.operands.size() + s, s,
                        arguments);
  }
  for (std::size_t o = 0; o < chain.outputs.size(); ++o)
    text += fmt::format("    o{}[i] = {};\n", o, value_name(chain.outputs[o]));
  return text;
}

bool has_types(const Chain& chain) {
  for (const auto& operand : chain.operands) {
    if (!c_type(operand.dtype)) return false;
  }
  for (const auto& step : chain.steps) {
    if (!c_type(step.dtype)) return false;
  }
  return true;
}

Chain chain_of(const kernels::PlanRequest& request, const std::string& expression) {
  Chain chain{
      .shape = request.out[0].shape, .operands = {}, .steps = {{expression, {}, request.out[0].dtype}}, .outputs = {}};
  for (const auto& in : request.in) {
    chain.steps[0].in.push_back(static_cast<int>(chain.operands.size()));
    chain.operands.push_back({in.dtype, kernels::broadcast_strides(in.shape, in.strides, chain.shape)});
  }
  chain.outputs = {static_cast<int>(chain.operands.size())};
  return chain;
}

}  // namespace

// Several elements per thread once the chip is full, so that several loads are in flight.
int chain_elements(const Chain& chain) { return chain.shape.numel() >= (1 << 19) ? 4 : 1; }

std::string chain_source(const Chain& chain) {
  const auto n = chain.shape.numel();
  std::string text = fmt::format("typedef {} Index;\n", n < (std::int64_t{1} << 30) ? "unsigned" : "long long");
  for (std::size_t s = 0; s < chain.steps.size(); ++s) text += step_function(chain, s);
  std::string parameters;
  const auto separator = [&] { return parameters.empty() ? "" : ", "; };
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    parameters += fmt::format("{}const {}* a{}", separator(), c_type(chain.operands[k].dtype), k);
  }
  for (std::size_t o = 0; o < chain.outputs.size(); ++o) {
    parameters += fmt::format("{}{}* o{}", separator(), c_type(dtype_of_value(chain, chain.outputs[o])), o);
  }
  text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) run({}) {{\n", kChainThreads, parameters);
  // Programmatic dependent launch, as in device/launch.cuh.
  text +=
      "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n  asm volatile(\"griddepcontrol.launch_dependents;\" "
      "::: \"memory\");\n";
  text += fmt::format(
      "  #pragma unroll\n  for (int e = 0; e < {0}; ++e) {{\n    const Index i = (Index)(blockIdx.x * {0} + e) * {1} + "
      "threadIdx.x;\n",
      chain_elements(chain), kChainThreads);
  return text + fmt::format("    if (i >= {}) return;\n", n) + element_code(chain) + "  }\n}\n";
}

std::unique_ptr<kernels::Plan> plan_chain(const Chain& chain) {
  if (!has_types(chain)) return nullptr;
  const auto n = chain.shape.numel();
  if (n == 0) return kernels::make_plan([](const kernels::Launch&) {});
  const RunTimeKernel& kernel = RunTimeKernel::of(chain_source(chain));
  const auto per_block = static_cast<std::int64_t>(kChainThreads) * chain_elements(chain);
  const auto blocks = (n + per_block - 1) / per_block;
  const std::size_t in = chain.operands.size(), out = chain.outputs.size();
  return kernels::make_plan([&kernel, blocks, in, out](const kernels::Launch& launch) {
    constexpr std::size_t kMost = 96;
    check(in + out <= kMost, "[cuda] expected at most {} operands of a chain, got {}", kMost, in + out);
    void* arguments[kMost];
    for (std::size_t i = 0; i < in; ++i) arguments[i] = const_cast<void**>(&launch.in[i]);
    for (std::size_t i = 0; i < out; ++i) arguments[in + i] = const_cast<void**>(&launch.out[i]);
    kernel.launch(blocks, kChainThreads, arguments, stream_of(launch));
  });
}

void add_elementwise(kernels::KernelTable& table, std::string_view op, std::string_view expression) {
  expressions().emplace(op, expression);
  table.add(op, DeviceKind::cuda,
            {"nvrtc", kernels::Accepts::strided, [text = std::string(expression)](const kernels::PlanRequest& request) {
               return plan_chain(chain_of(request, text));
             }});
}

const std::string* elementwise_expression(std::string_view op) {
  const auto it = expressions().find(op);
  return it == expressions().end() ? nullptr : &it->second;
}

std::unique_ptr<kernels::Plan> plan_copy(const kernels::PlanRequest& request) {
  const kernels::ArgDesc& in = request.in[0];
  return plan_chain({.shape = in.shape,
                     .operands = {{in.dtype, in.strides}},
                     .steps = {{"a", {0}, request.out[0].dtype}},
                     .outputs = {1}});
}

}  // namespace starling::cuda
