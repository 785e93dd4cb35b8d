#pragma once

#include "starling/kernels/bags.h"
#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/tensor/shape_parts.h"

namespace starling::cuda {

// Device code over bags of entries: the indices are operand 1. BEGIN(b) and END(b) are the entries of a bag, SCALE(e)
// the factor of an entry, count_of(…) how many entries of a bag are not padding. Offsets that do not rise within the
// entries cannot throw on a device; nothing outside the entries is read for them.
struct BagCode {
  kernels::Bags bags;
  std::vector<std::string> in{};
  CodeNames names{};

  // Null types where the values are not floats that the code takes.
  static std::optional<BagCode> of(const kernels::PlanRequest& request, const op::BagAttrs& a) {
    if (!is_plain_float(request.in[0].dtype)) return std::nullopt;
    BagCode code{kernels::Bags::of(request)};
    for (const auto& arg : request.in) code.in.emplace_back(c_type(arg.dtype));
    const op::BagOperands& operands = code.bags.operands;
    code.names.number("BAGS", operands.bags).number("ENTRIES", operands.entries).number("EACH", code.bags.each);
    code.names.number("PADDING", a.padding).number("MEAN", a.mean).type("T", request.in[0].dtype);
    code.names.code(
        "static __device__ long long within(long long e) { return e < 0 ? 0 : e > ENTRIES ? ENTRIES : e; }\n"
        "static __device__ long long count_of(const long long* indices, long long begin, long long end) {\n"
        "  long long count = 0;\n"
        "  for (long long e = begin; e < end; ++e) count += indices[e] != PADDING;\n  return count;\n}\n");
    if (operands.offsets < 0) {
      code.names.expression("BEGIN(b)", "((b) * EACH)").expression("END(b)", "(((b) + 1) * EACH)");
    } else {
      code.names.expression("BEGIN(b)", fmt::format("within(a{}[b])", operands.offsets));
      code.names.expression("END(b)",
                            fmt::format("((b) + 1 == BAGS ? ENTRIES : within(a{}[(b) + 1]))", operands.offsets));
    }
    code.names.expression("SCALE(e)", operands.scale < 0 ? "1.0" : fmt::format("(double)a{}[e]", operands.scale));
    return code;
  }

  std::unique_ptr<kernels::Plan> plan(const Shape& shape, const std::vector<std::string>& out,
                                      const std::string& body) const {
    return plan_code({shape, in, out, body, names.text()});
  }
};

// Code by which thread x0, x1 sums column x1 of the rows of a bag's entries; ROW is the row of entry e, NAN_ROW whether
// it is out of range.
inline constexpr const char* kAddUp = R"(
  double sum = 0;
  long long count = 0;
  for (long long e = BEGIN((long long)x0), end = END((long long)x0); e < end; ++e) {
    const long long index = a1[e];
    if (index == PADDING) continue;
    ++count;
    sum += OUTSIDE ? __longlong_as_double(-1) : SCALE(e) * (double)a0[ROW * WIDTH + x1];
  }
  o0[i] = MEAN && count > 0 ? sum / (double)count : sum;
)";

}  // namespace starling::cuda
