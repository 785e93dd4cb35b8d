#include "starling/kernels/cuda/elementwise.h"

#include <algorithm>
#include <bit>
#include <map>

#include "starling/kernels/cuda/expression_functions.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/strides.h"

namespace starling::cuda {

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::i64: return "long long";
    case DType::i32: return "int";
    case DType::i16: return "short";
    case DType::i8: return "signed char";
    case DType::u64: return "unsigned long long";
    case DType::u32: return "unsigned";
    case DType::u16: return "unsigned short";
    case DType::u8: return "unsigned char";
    case DType::boolean: return "bool";
    default: return nullptr;
  }
}

const char* moved_type(DType dtype) {
  switch (size_of(dtype)) {
    case 8: return "unsigned long long";
    case 4: return "unsigned";
    case 2: return "unsigned short";
    default: return "unsigned char";
  }
}

std::string literal(double value) {
  return fmt::format("__longlong_as_double({}ll)", std::bit_cast<std::int64_t>(value));
}

const char* stored_type(DType dtype) {
  return dtype == DType::bf16 ? "BF16" : dtype == DType::f16 ? "F16" : c_type(dtype);
}

const char* value_type(DType dtype) { return is_half(dtype) ? "float" : c_type(dtype); }

const char* half_types() {
  return "struct BF16 {\n  unsigned short bits;\n  BF16() = default;\n"
         "  __device__ BF16(float v) { asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(v)); }\n"
         "  __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }\n};\n"
         "struct F16 {\n  unsigned short bits;\n  F16() = default;\n"
         "  __device__ F16(float v) { asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(v)); }\n"
         "  __device__ operator float() const { float v; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(v) : \"h\"(bits)); "
         "return "
         "v; }\n};\n";
}

namespace {

struct Expressions {
  std::string floats, integers;
};
// Registered expressions: filled while the kernel table is built, read-only afterwards.
std::map<std::string, Expressions, std::less<>>& expressions() {
  static auto& map = *new std::map<std::string, Expressions, std::less<>>;
  return map;
}

// True if a step calls a function of kFunctions: without them kernels compile faster.
bool calls_functions(const Chain& chain) {
  for (const auto& step : chain.steps) {
    for (const char* name : {"logistic(", "times(", "normal_share(", "_slope(", "_of(", "_quotient(", "whole_",
                             "cut_log(", "bce_logits("}) {
      if (step.expression.find(name) != std::string::npos) return true;
    }
  }
  return false;
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
    parameters += fmt::format("{}{} {}", i ? ", " : "", value_type(dtype_of_value(chain, step.in[i])), "abc"[i]);
  }
  const DType type = step.in.empty() ? step.dtype : dtype_of_value(chain, step.in.back());
  std::string constants;
  for (std::size_t i = 0; i < step.attributes.size(); ++i)
    constants += fmt::format("const {} {} = {}; ", type == DType::f32 || is_half(type) ? "float" : "double", "pq"[i],
                             literal(step.attributes[i]));
  return fmt::format("static __device__ __forceinline__ {0} f{1}({2}) {{ typedef {3} T; {4}return ({0})({5}); }}\n",
                     value_type(step.dtype), s, parameters, value_type(type), constants, step.expression);
}

bool is_linear(const Chain& chain, const Shape& strides) { return is_contiguous(chain.shape, strides); }

bool reads_halves(const Chain& chain) {
  for (const auto& operand : chain.operands) {
    if (is_half(operand.dtype)) return true;
  }
  for (const auto& step : chain.steps) {
    if (is_half(step.dtype)) return true;
  }
  return false;
}

// Code for the offset of an operand's element: sum of coordinate times stride.
std::string place(const Chain& chain, const Chain::Operand& operand, bool by_number = true) {
  const Shape& strides = operand.strides;
  std::string text = operand.first == 0 ? "" : fmt::format("(Index){}", operand.first);
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  if (by_number && is_linear(chain, strides)) {
    add("i");
    return text;
  }
  for (int d = 0; d < strides.rank(); ++d) {
    if (strides[d] != 0 && chain.shape[d] != 1) add(fmt::format("x{} * {}", d, strides[d]));
  }
  return text.empty() ? "0" : text;
}

// Code for the place of a result.
std::string target(const Chain& chain) { return chain.into ? place(chain, *chain.into) : "i"; }

// True if 32 bits do not hold every offset.
bool is_wide(const Chain& chain) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto reach = [&](const Chain::Operand& operand) {
    std::int64_t last = operand.first;
    for (int d = 0; d < chain.shape.rank(); ++d) last += (chain.shape[d] - 1) * operand.strides[d];
    return last;
  };
  bool wide = chain.shape.numel() >= kMost || (chain.into && reach(*chain.into) >= kMost);
  for (const auto& operand : chain.operands) wide = wide || reach(operand) >= kMost;
  return wide;
}

// Coordinates x0, x1, … of element i, where an operand needs them.
std::string coordinates(const Chain& chain) {
  bool needed = false;
  for (const auto& operand : chain.operands) needed |= !is_linear(chain, operand.strides);
  if (chain.into) needed |= !is_linear(chain, chain.into->strides);
  std::string text;
  if (!needed) return text;
  text += "    Index r = i;\n";
  for (int d = chain.shape.rank() - 1; d >= 0; --d) {
    text += fmt::format("    const Index x{0} = r % {1}; r /= {1};\n", d, chain.shape[d]);
  }
  return text;
}

// Values of the steps.
std::string step_code(const Chain& chain) {
  std::string text;
  for (std::size_t s = 0; s < chain.steps.size(); ++s) {
    std::string arguments;
    for (int value : chain.steps[s].in) arguments += (arguments.empty() ? "" : ", ") + value_name(value);
    text += fmt::format("    const {} v{} = f{}({});\n", value_type(chain.steps[s].dtype), chain.operands.size() + s, s,
                        arguments);
  }
  return text;
}

// Loads of operands and values of steps.
std::string value_code(const Chain& chain, bool by_number) {
  std::string text;
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    text += fmt::format("    const {} v{} = a{}[{}];\n", value_type(chain.operands[k].dtype), k, k,
                        place(chain, chain.operands[k], by_number));
  }
  return text + step_code(chain);
}

std::string element_code(const Chain& chain) {
  std::string text = coordinates(chain) + value_code(chain, true);
  for (std::size_t o = 0; o < chain.outputs.size(); ++o)
    text += fmt::format("    o{}[{}] = {};\n", o, target(chain), value_name(chain.outputs[o]));
  return text;
}

Chain chain_of(const kernels::PlanRequest& request, const std::string& expression) {
  Chain chain{.shape = request.out[0].shape,
              .operands = {},
              .steps = {{expression, {}, request.out[0].dtype, {}}},
              .outputs = {}};
  for (double number : numbers_of(request.attrs)) chain.steps[0].attributes.push_back(number);
  for (const auto& in : request.in) {
    chain.steps[0].in.push_back(static_cast<int>(chain.operands.size()));
    chain.operands.push_back({in.dtype, kernels::broadcast_strides(in.shape, in.strides, chain.shape)});
  }
  chain.outputs = {static_cast<int>(chain.operands.size())};
  return in_order_of(std::move(chain), request.out[0].strides);
}

std::string head(const Chain& chain, int threads);

// Elements that a thread takes at once: neighbours, read and written by 16 bytes where they are aligned. 1: not at all.
int pack_of(const Chain& chain) {
  constexpr std::int64_t kLeast = 1 << 15;
  bool halves = false;
  for (const auto& operand : chain.operands) halves = halves || size_of(operand.dtype) == 2;
  for (int value : chain.outputs) halves = halves || size_of(dtype_of_value(chain, value)) == 2;
  const int pack = halves ? 8 : 4;
  if (chain.into && (chain.shape.rank() == 0 || chain.into->strides.back() != 1)) return 1;
  const bool fits = chain.shape.rank() > 0 && chain.shape.back() % pack == 0 && chain.shape.numel() >= kLeast;
  return fits ? pack : 1;
}

// Loads of a pack's operands as p0, p1, …: a vector, one value for all, or value by value.
std::string pack_loads(const Chain& chain) {
  std::string text;
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    const auto& operand = chain.operands[k];
    const std::string from = place(chain, operand), type = stored_type(operand.dtype);
    const std::int64_t last = operand.strides.back();
    if (last == 1) {
      text += fmt::format("  const Pack<{0}> p{1} = load_pack(a{1} + ({2}));\n", type, k, from);
    } else if (last == 0) {
      text += fmt::format("  const {0} p{1} = a{1}[{2}];\n", type, k, from);
    } else {
      text += fmt::format(
          "  Pack<{0}> p{1};\n  #pragma unroll\n  for (int k = 0; k < V; ++k) p{1}.at[k] = a{1}[({2}) + k * {3}];\n",
          type, k, from, last);
    }
  }
  return text;
}

// Kernel in which every thread takes one pack.
std::string pack_source(const Chain& chain, int pack) {
  std::string text =
      fmt::format("  const Index i = ((Index)blockIdx.x * {} + threadIdx.x) * V;\n  if (i >= {}) return;\n",
                  kChainThreads, chain.shape.numel());
  text += coordinates(chain) + pack_loads(chain);
  for (std::size_t o = 0; o < chain.outputs.size(); ++o)
    text += fmt::format("  Pack<{}> q{};\n", stored_type(dtype_of_value(chain, chain.outputs[o])), o);
  text += "  #pragma unroll\n  for (int k = 0; k < V; ++k) {\n";
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    const auto& operand = chain.operands[k];
    text += fmt::format("    const {} v{} = p{}{};\n", value_type(operand.dtype), k, k,
                        operand.strides.back() == 0 ? "" : ".at[k]");
  }
  text += step_code(chain);
  for (std::size_t o = 0; o < chain.outputs.size(); ++o)
    text += fmt::format("    q{}.at[k] = {};\n", o, value_name(chain.outputs[o]));
  text += "  }\n";
  for (std::size_t o = 0; o < chain.outputs.size(); ++o)
    text += fmt::format("  store_pack(o{0} + ({1}), q{0});\n", o, target(chain));
  const std::string tools = fmt::format(
      "constexpr int V = {};\n"
      "template <class T> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Pack {{ T at[V]; }};\n"
      "template <class T> static __device__ __forceinline__ Pack<T> load_pack(const T* p) {{\n"
      "  if ((unsigned long long)p % alignof(Pack<T>) == 0) return *(const Pack<T>*)p;\n"
      "  Pack<T> v;\n  #pragma unroll\n  for (int k = 0; k < V; ++k) v.at[k] = p[k];\n  return v;\n}}\n"
      "template <class T> static __device__ __forceinline__ void store_pack(T* p, const Pack<T>& v) {{\n"
      "  if ((unsigned long long)p % alignof(Pack<T>) == 0) {{ *(Pack<T>*)p = v; return; }}\n"
      "  #pragma unroll\n  for (int k = 0; k < V; ++k) p[k] = v.at[k];\n}}\n",
      pack);
  return tools + head(chain, kChainThreads) + text + "}\n";
}

// Fewest dimensions over which all operands have strides.
Chain joined_dimensions(Chain chain) {
  const auto each = [&](const auto& body) {
    for (auto& operand : chain.operands) body(operand.strides);
    if (chain.into) body(chain.into->strides);
  };
  for (int d = chain.shape.rank() - 2; d >= 0; --d) {
    if (chain.shape[d + 1] == 1) {
      chain.shape.erase(d + 1);
      each([&](Shape& strides) { strides.erase(d + 1); });
      continue;
    }
    bool joins = true;
    each([&](const Shape& strides) {
      joins = joins && (chain.shape[d] == 1 || strides[d] == strides[d + 1] * chain.shape[d + 1]);
    });
    if (!joins) continue;
    chain.shape[d + 1] *= chain.shape[d];
    chain.shape.erase(d);
    each([&](Shape& strides) { strides.erase(d); });
  }
  return chain;
}

std::string head(const Chain& chain, int threads) {
  std::string text = fmt::format("typedef {} Index;\n", is_wide(chain) ? "long long" : "unsigned");
  if (reads_halves(chain)) text += half_types();
  if (calls_functions(chain)) text += kFunctions;
  for (std::size_t s = 0; s < chain.steps.size(); ++s) text += step_function(chain, s);
  std::string parameters;
  const auto separator = [&] { return parameters.empty() ? "" : ", "; };
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    parameters += fmt::format("{}const {}* a{}", separator(), stored_type(chain.operands[k].dtype), k);
  }
  for (std::size_t o = 0; o < chain.outputs.size(); ++o) {
    parameters += fmt::format("{}{}* o{}", separator(), stored_type(dtype_of_value(chain, chain.outputs[o])), o);
  }
  text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) run({}) {{\n", threads, parameters);
  // Programmatic dependent launch, as in device/launch.cuh.
  return text +
         "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n  asm volatile(\"griddepcontrol.launch_dependents;"
         "\" ::: \"memory\");\n";
}

// Coordinates of the kept or the reduced axes of a fold from the number `of`.
std::string fold_coordinates(const ChainFold& fold, bool reduced, const char* of) {
  std::string text = fmt::format("{{ Index r = {};\n", of);
  for (int d = fold.chain.shape.rank() - 1; d >= 0; --d) {
    if ((std::find(fold.axes.begin(), fold.axes.end(), d) != fold.axes.end()) != reduced) continue;
    text += fmt::format("    x{0} = r % {1}; r /= {1};\n", d, fold.chain.shape[d]);
  }
  return text + "  }\n";
}

// Type that a fold sums in: integers in 64 bits.
const char* fold_type(DType dtype) { return dtype == DType::f64 ? "double" : is_float(dtype) ? "float" : "long long"; }

const char* nothing_of(Fold fold, DType dtype) {
  const bool real = is_float(dtype);
  switch (fold) {
    case Fold::prod: return "1";
    case Fold::max: return real ? "-__longlong_as_double(0x7ff0000000000000ll)" : "-0x7fffffffffffffffll - 1";
    case Fold::min: return real ? "__longlong_as_double(0x7ff0000000000000ll)" : "0x7fffffffffffffffll";
    default: return "0";
  }
}

const char* joined(Fold fold) {
  switch (fold) {
    case Fold::prod: return "a * b";
    case Fold::max: return "a > b || a != a ? a : b";
    case Fold::min: return "a < b || a != a ? a : b";
    default: return "a + b";
  }
}

}  // namespace

Chain in_order_of(Chain chain, const Shape& strides) {
  if (is_contiguous(chain.shape, strides)) return chain;
  std::vector<int> order;
  for (int d = 0; d < chain.shape.rank(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  const auto reordered = [&](const Shape& from) {
    Shape to;
    for (int d : order) to.push_back(from[d]);
    return to;
  };
  chain.shape = reordered(chain.shape);
  for (auto& operand : chain.operands) operand.strides = reordered(operand.strides);
  return chain;
}

// Several elements per thread once the chip is full, so that several loads are in flight.
int chain_elements(const Chain& chain) {
  const int pack = pack_of(joined_dimensions(chain));
  return pack > 1 ? pack : chain.shape.numel() >= (1 << 19) ? 4 : 1;
}

std::string chain_source(const Chain& given) {
  const Chain chain = joined_dimensions(given);
  if (const int pack = pack_of(chain); pack > 1) return pack_source(chain, pack);
  const std::string loop = fmt::format(
      "  #pragma unroll\n  for (int e = 0; e < {0}; ++e) {{\n    const Index i = (Index)(blockIdx.x * {0} + e) * {1} + "
      "threadIdx.x;\n    if (i >= {2}) return;\n",
      chain_elements(chain), kChainThreads, chain.shape.numel());
  return head(chain, kChainThreads) + loop + element_code(chain) + "  }\n}\n";
}

std::int64_t fold_terms(const ChainFold& fold) {
  std::int64_t terms = 1;
  for (auto axis : fold.axes) terms *= fold.chain.shape[static_cast<int>(axis)];
  return terms;
}

namespace {

bool folds_by_thread(const ChainFold& fold) {
  constexpr std::int64_t kMostTerms = 128, kLeastResults = 1 << 15;
  return fold.pieces == 1 && fold_terms(fold) <= kMostTerms && fold_results(fold) >= kLeastResults;
}

}  // namespace

std::int64_t fold_blocks(const ChainFold& fold) {
  const std::int64_t results = fold_results(fold);
  return folds_by_thread(fold) ? (results + kChainThreads - 1) / kChainThreads : results * fold.pieces;
}

int fold_threads(const ChainFold& fold) {
  if (folds_by_thread(fold)) return kChainThreads;
  const std::int64_t terms = fold_terms(fold);
  return terms >= 4096 ? 1024 : terms >= 256 ? 256 : 64;
}

std::int64_t fold_results(const ChainFold& fold) {
  std::int64_t results = 1;
  for (int d = 0; d < fold.chain.shape.rank(); ++d) {
    if (std::find(fold.axes.begin(), fold.axes.end(), d) == fold.axes.end()) results *= fold.chain.shape[d];
  }
  return results;
}

namespace {

// One thread per result, for many results of few terms.
std::string thread_fold_code(const ChainFold& fold, DType dtype) {
  std::string text = fmt::format("  const Index n = (Index)blockIdx.x * {} + threadIdx.x;\n  if (n >= {}) return;\n",
                                 kChainThreads, fold_results(fold));
  text += fold_coordinates(fold, false, "n");
  text += fmt::format("  A total = {};\n  for (Index j = 0; j < {}; ++j) {{\n", nothing_of(fold.fold, dtype),
                      fold_terms(fold));
  text += fold_coordinates(fold, true, "j") + value_code(fold.chain, false);
  text += fmt::format("    total = join(total, (A){});\n  }}\n", value_name(fold.chain.outputs[0]));
  const std::string result = fold.fold == Fold::mean ? fmt::format("total / (A){}", fold_terms(fold)) : "total";
  return text + fmt::format("  o0[n] = ({})({});\n}}\n", stored_type(dtype), result);
}

}  // namespace

// One block per result: its threads take turns at the terms, then join what they have. Many results of few terms have a
// thread each.
std::string fold_source(const ChainFold& fold) {
  const DType dtype = dtype_of_value(fold.chain, fold.chain.outputs[0]);
  const int threads = fold_threads(fold);
  const std::int64_t terms = fold_terms(fold);
  std::string text =
      fmt::format("typedef {0} A;\nstatic __device__ __forceinline__ A join(A a, A b) {{ return {1}; }}\n",
                  fold_type(dtype), joined(fold.fold));
  text += head(fold.chain, threads);
  for (int d = 0; d < fold.chain.shape.rank(); ++d) text += fmt::format("  Index x{};\n", d);
  if (folds_by_thread(fold)) return text + thread_fold_code(fold, dtype);
  text += fmt::format("  __shared__ A shared[{}];\n", threads / 32);
  text += fold_coordinates(fold, false, fmt::format("blockIdx.x / {}", fold.pieces).c_str());
  text += fmt::format("  A total = {};\n  for (Index j = blockIdx.x % {} * {} + threadIdx.x; j < {}; j += {}) {{\n",
                      nothing_of(fold.fold, dtype), fold.pieces, threads, terms, threads * fold.pieces);
  text += fold_coordinates(fold, true, "j") + value_code(fold.chain, false);
  text += fmt::format("    total = join(total, (A){});\n  }}\n", value_name(fold.chain.outputs[0]));
  text +=
      "  for (int s = 16; s > 0; s /= 2) total = join(total, __shfl_down_sync(0xffffffffu, total, s));\n"
      "  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = total;\n  __syncthreads();\n"
      "  if (threadIdx.x > 0) return;\n";
  text += fmt::format("  for (int w = 1; w < {}; ++w) total = join(total, shared[w]);\n", threads / 32);
  const std::string result = fold.fold == Fold::mean ? fmt::format("total / (A){}", terms) : "total";
  return text + fmt::format("  o0[blockIdx.x] = ({})({});\n}}\n", stored_type(dtype), result);
}

bool has_types(const Chain& chain) {
  for (const auto& operand : chain.operands) {
    if (!stored_type(operand.dtype)) return false;
  }
  for (const auto& step : chain.steps) {
    if (!stored_type(step.dtype)) return false;
  }
  return true;
}

std::unique_ptr<kernels::Plan> plan_chain(const Chain& chain) {
  if (!has_types(chain)) return nullptr;
  return plan_stages({chain_stage(chain, plain_pointers(chain.operands.size(), chain.outputs.size()))});
}

kernels::Storable converts() {
  kernels::Storable all;
  all.narrow_in = all.narrow_out = all.images_in = all.images_out = kernels::each();
  return all;
}

void add_elementwise(kernels::KernelTable& table, std::string_view op, std::string_view expression,
                     std::string_view of_integers) {
  expressions().emplace(
      op, Expressions{std::string(expression), std::string(of_integers.empty() ? expression : of_integers)});
  table.add(op, DeviceKind::cuda,
            {"nvrtc", kernels::Accepts::strided,
             [name = std::string(op)](const kernels::PlanRequest& request) -> std::unique_ptr<kernels::Plan> {
               return plan_chain(chain_of(request, *elementwise_expression(name, request.in.back().dtype)));
             }});
  add_storable(std::string(op), converts());
}

const std::string* elementwise_expression(std::string_view op, DType dtype) {
  const auto it = expressions().find(op);
  if (it == expressions().end()) return nullptr;
  return is_float(dtype) ? &it->second.floats : &it->second.integers;
}

Chain move_chain(DType dtype, const Shape& shape, const Shape& from, const Chain::Operand& into) {
  constexpr DType kBySize[] = {DType::u8, DType::u16, DType::u32, DType::u64};
  const DType bits = kBySize[std::countr_zero(size_of(dtype))];
  return {.shape = shape,
          .operands = {{bits, from}},
          .steps = {{"a", {0}, bits, {}}},
          .outputs = {1},
          .into = Chain::Operand{bits, into.strides, into.first}};
}

std::unique_ptr<kernels::Plan> plan_copy(const kernels::PlanRequest& request) {
  const kernels::ArgDesc& in = request.in[0];
  Chain chain{.shape = in.shape,
              .operands = {{in.dtype, in.strides}},
              .steps = {{"a", {0}, request.out[0].dtype, {}}},
              .outputs = {1}};
  return plan_chain(in.shape == request.out[0].shape ? in_order_of(std::move(chain), request.out[0].strides) : chain);
}

}  // namespace starling::cuda
