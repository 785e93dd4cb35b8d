#include "starling/ops/fused.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "starling/kernels/cpu/op_blocks.h"
#include "starling/kernels/cpu/simd/fused_chain.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/strides.h"

namespace starling {
namespace {

constexpr std::size_t kMaxSlots = 32;  // of a chain

// The operands' strides over the joined dimensions of the output.
struct Layout {
  Shape shape{};
  std::vector<Shape> strides{};
};

// As collapse(), for any number of operands.
Layout joined(const Shape& shape, const std::vector<Shape>& strides) {
  Layout out;
  out.strides.resize(strides.size());
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const int last = out.shape.rank() - 1;
    bool join = last >= 0;
    for (std::size_t k = 0; join && k < strides.size(); ++k) join = out.strides[k][last] == strides[k][d] * shape[d];
    if (join)
      out.shape[last] *= shape[d];
    else
      out.shape.push_back(shape[d]);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (join)
        out.strides[k][last] = strides[k][d];
      else
        out.strides[k].push_back(strides[k][d]);
    }
  }
  return out;
}

// How an operand spreads over the last two dimensions [rows, cols]; false where a chain has no such spread.
bool spread_of(std::int64_t row_stride, std::int64_t col_stride, std::int64_t cols, Spread& spread) {
  if (row_stride == 0 && col_stride == 0)
    spread = Spread::scalar;
  else if (row_stride == 0 && col_stride == 1)
    spread = Spread::row;
  else if (row_stride == 1 && col_stride == 0)
    spread = Spread::column;
  else if (row_stride == cols && col_stride == 1)
    spread = Spread::full;
  else
    return false;
  return true;
}

// Which slot each value of the program has: operands, then temporaries (given again once their value is no longer
// read), then outputs. Empty when the program does not fit a chain.
struct Slots {
  std::vector<int> of{};
  int temporaries = 0;
};

Slots assign_slots(const FusedProgram& program) {
  const int operands = program.operands, values = operands + static_cast<int>(program.steps.size());
  const auto output_of = [&](int value) {
    const auto it = std::find(program.outputs.begin(), program.outputs.end(), value);
    return it == program.outputs.end() ? -1 : static_cast<int>(it - program.outputs.begin());
  };
  std::vector<int> last_use(static_cast<std::size_t>(values), -1);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    for (int value : program.steps[s].in) last_use[static_cast<std::size_t>(value)] = static_cast<int>(s);
  }
  Slots slots;
  std::vector<int> free, temporary(static_cast<std::size_t>(values), -1);
  for (int v = operands; v < values; ++v) {
    if (output_of(v) < 0) {
      if (free.empty()) free.push_back(slots.temporaries++);
      temporary[static_cast<std::size_t>(v)] = free.back();
      free.pop_back();
    }
    // What this step reads for the last time may be overwritten by the next.
    for (int value = operands; value < v; ++value) {
      const auto i = static_cast<std::size_t>(value);
      if (last_use[i] == v - operands && temporary[i] >= 0) free.push_back(temporary[i]);
    }
  }
  for (int v = 0; v < values; ++v) {
    const int out = output_of(v);
    if (v < operands)
      slots.of.push_back(v);
    else
      slots.of.push_back(out >= 0 ? operands + slots.temporaries + out
                                  : operands + temporary[static_cast<std::size_t>(v)]);
  }
  return slots;
}

bool outputs_are_steps(const FusedProgram& program) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const auto begin = program.outputs.begin();
    if (program.outputs[o] < program.operands) return false;
    if (std::find(begin, begin + static_cast<std::ptrdiff_t>(o), program.outputs[o]) !=
        begin + static_cast<std::ptrdiff_t>(o))
      return false;
  }
  return true;
}

std::unique_ptr<FusedChain> make_chain(const FusedProgram& program, std::span<const ArgDesc> in,
                                       const std::vector<Spread>& spreads) {
  std::vector<TensorType> given;
  for (const auto& arg : in) given.push_back({arg.dtype, arg.shape});
  const auto types = program.infer(given);
  const Slots slots = assign_slots(program);
  FusedChain::Spec spec;
  spec.temporaries = slots.temporaries;
  if (in.size() + static_cast<std::size_t>(spec.temporaries) + program.outputs.size() > kMaxSlots) return nullptr;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const int bytes = static_cast<int>(size_of(in[k].dtype));
    if (bytes == 2) return nullptr;
    spec.inputs.push_back({bytes, spreads[k]});
  }
  for (int value : program.outputs)
    spec.output_bytes.push_back(static_cast<int>(size_of(types[static_cast<std::size_t>(value)].dtype)));
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const auto& step = program.steps[s];
    SmallVector<DType, 4> dtypes;
    ChainStep made{nullptr, {-1, -1, -1}, slots.of[static_cast<std::size_t>(program.operands) + s]};
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      dtypes.push_back(types[static_cast<std::size_t>(step.in[k])].dtype);
      made.in[k] = slots.of[static_cast<std::size_t>(step.in[k])];
    }
    made.fn = find_block(*step.op, {dtypes.data(), dtypes.size()}).fn;
    if (!made.fn) return nullptr;
    std::copy(step.attributes.begin(), step.attributes.end(), made.params.begin());
    spec.steps.push_back(made);
  }
  return std::make_unique<FusedChain>(std::move(spec));
}

// A chain over [rows, cols], for every index of the dimensions before them.
struct Passes {
  std::shared_ptr<const FusedChain> chain;
  std::int64_t rows = 1, cols = 1;
  Shape outer{};
  std::vector<Shape> strides{};              // of operands over the outer dimensions, in bytes
  std::vector<std::int64_t> output_bytes{};  // from one pass to the next

  void run(const Launch& launch) const {
    const void* in[kMaxSlots];
    void* out[kMaxSlots];
    const std::int64_t count = outer.numel();
    for (std::int64_t pass = 0; pass < count; ++pass) {
      for (std::size_t k = 0; k < strides.size(); ++k) {
        std::int64_t rest = pass, at = 0;
        for (int d = outer.rank() - 1; d >= 0; --d) {
          at += rest % outer[d] * strides[k][d];
          rest /= outer[d];
        }
        in[k] = static_cast<const std::byte*>(launch.in[k]) + at;
      }
      for (std::size_t o = 0; o < output_bytes.size(); ++o)
        out[o] = static_cast<std::byte*>(launch.out[o]) + pass * output_bytes[o];
      chain->run(in, out, rows, cols, launch.scratch);
    }
  }
};

std::unique_ptr<Plan> plan_fused(const PlanRequest& request) {
  const FusedProgram& program = fused_program(request.attrs.as<FusedAttrs>().program);
  if (!outputs_are_steps(program)) return nullptr;
  std::vector<Shape> strides;
  for (const auto& arg : request.in) strides.push_back(broadcast_strides(arg.shape, arg.strides, request.out[0].shape));
  const Layout layout = joined(request.out[0].shape, strides);
  const int rank = layout.shape.rank();
  Passes passes;
  passes.cols = rank > 0 ? layout.shape[rank - 1] : 1;
  passes.rows = rank > 1 ? layout.shape[rank - 2] : 1;
  std::vector<Spread> spreads(strides.size());
  for (std::size_t k = 0; k < strides.size(); ++k) {
    const Shape& own = layout.strides[k];
    const std::int64_t col = rank > 0 ? own[rank - 1] : 0;
    const std::int64_t row = rank > 1 ? own[rank - 2] : col * passes.cols;
    if (!spread_of(row, col, passes.cols, spreads[k])) return nullptr;
    const auto bytes = static_cast<std::int64_t>(size_of(request.in[k].dtype));
    Shape outer;
    for (int d = 0; d < rank - 2; ++d) outer.push_back(own[d] * bytes);
    passes.strides.push_back(outer);
  }
  for (int d = 0; d < rank - 2; ++d) passes.outer.push_back(layout.shape[d]);
  for (const auto& out : request.out)
    passes.output_bytes.push_back(passes.rows * passes.cols * static_cast<std::int64_t>(size_of(out.dtype)));
  passes.chain = make_chain(program, request.in, spreads);
  if (!passes.chain) return nullptr;
  return make_plan(passes.chain->scratch_bytes(request.threads),
                   [passes](const Launch& launch) { passes.run(launch); });
}

}  // namespace

void register_cpu_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cpu, {"chain", Accepts::strided, plan_fused});
  table.add("fused", DeviceKind::cpu, {"chain", Accepts::contiguous, plan_fused});
}

}  // namespace starling
