#include "starling/kernels/cuda/sorted_lines.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/device/sort.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/tensor/device_memory.h"

namespace starling::cuda {
namespace {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Key of a value v: unsigned, in the order of the values.
const char* key_code(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "static __device__ unsigned long long key_of(float v) {\n"
             "  const unsigned bits = v == 0 ? 0u : v != v ? 0x7fffffffu : __float_as_uint(v);\n"
             "  return bits >> 31 ? (unsigned)~bits : bits | 0x80000000u;\n}\n";
    case DType::f64:
      return "static __device__ unsigned long long key_of(double v) {\n"
             "  const unsigned long long bits =\n"
             "      v == 0 ? 0ull : v != v ? 0x7fffffffffffffffull : (unsigned long long)__double_as_longlong(v);\n"
             "  return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;\n}\n";
    case DType::i64:
      return "static __device__ unsigned long long key_of(long long v) {\n"
             "  return (unsigned long long)v ^ 0x8000000000000000ull;\n}\n";
    case DType::i32:
    case DType::i16:
    case DType::i8: return "static __device__ unsigned long long key_of(int v) { return (unsigned)v ^ 0x80000000u; }\n";
    default: return "static __device__ unsigned long long key_of(unsigned long long v) { return v; }\n";
  }
}

int key_bits(DType dtype) {
  if (dtype == DType::i16 || dtype == DType::i8) return 32;
  return static_cast<int>(8 * size_of(dtype));
}

constexpr const char* kKeys = R"(
  const long long line = i / SIZE, at = (line / INNER * SIZE + i % SIZE) * INNER + line % INNER;
  const unsigned long long key = key_of(a0[at]);
  o0[i] = ((DESCENDING ? ~key : key) & MASK) | LINE;
  o1[i] = (unsigned)i;
)";

// Scratch of a sort: keys and positions before it and after it, and the library's own.
struct Places {
  std::size_t keys, sorted_keys, positions, sorted_positions, temporary, end;
};

std::shared_ptr<const kernels::Plan> sort_step(const Places& p, unsigned count, int bits) {
  return kernels::make_plan([=, bytes = p.end - p.temporary](const kernels::Launch& launch) {
    auto* base = static_cast<std::byte*>(launch.scratch);
    const auto at = [&]<class T>(std::size_t offset, T*) { return reinterpret_cast<T*>(base + offset); };
    unsigned long long* keys = nullptr;
    unsigned* positions = nullptr;
    check_cuda(device::launch_sort({at(p.keys, keys), at(p.sorted_keys, keys), at(p.positions, positions),
                                    at(p.sorted_positions, positions), count, bits},
                                   base + p.temporary, bytes, stream_of(launch)),
               "sorting");
  });
}

}  // namespace

Lines Lines::along(const Shape& shape, int axis) {
  Lines lines{1, shape[axis], 1};
  for (int d = 0; d < shape.rank(); ++d) (d < axis ? lines.outer : lines.inner) *= d == axis ? 1 : shape[d];
  return lines;
}

std::optional<SortedLines> SortedLines::plan(DType dtype, const Lines& lines, bool descending, Pointer from,
                                             std::size_t scratch) {
  const std::int64_t n = lines.elements();
  if (!c_type(dtype) || n >= std::numeric_limits<unsigned>::max()) return std::nullopt;
  SortedLines sorted;
  sorted.end_ = scratch;
  if (n == 0) return sorted;
  const auto count = static_cast<unsigned>(n);
  const auto bytes = static_cast<std::size_t>(n);
  unsigned long long temporary = 0;
  // Without a GPU the stages around the sort are compiled all the same.
  if (cuda_device_count() > 0) check_cuda(device::sort_temporary(count, &temporary), "planning a sort");
  Places p{};
  p.keys = scratch;
  p.sorted_keys = p.keys + aligned(bytes * 8);
  p.positions = p.sorted_keys + aligned(bytes * 8);
  p.sorted_positions = p.positions + aligned(bytes * 4);
  p.temporary = p.sorted_positions + aligned(bytes * 4);
  p.end = p.temporary + aligned(temporary);
  const auto place = [](std::size_t offset) { return Pointer{Pointer::Of::scratch, offset}; };
  const int bits = key_bits(dtype), line_bits = std::bit_width(static_cast<std::uint64_t>(lines.count() - 1));
  const bool at_once = bits + line_bits <= 64;
  CodeNames names;
  names.number("SIZE", lines.size).number("INNER", lines.inner).number("DESCENDING", descending);
  names.expression("MASK", bits == 64 ? "~0ull" : fmt::format("{}ull", (std::uint64_t{1} << bits) - 1));
  names.expression("LINE", at_once && line_bits > 0 ? fmt::format("((unsigned long long)line << {})", bits) : "0ull");
  names.code(key_code(dtype));
  sorted.steps_.push_back(
      plan_stages({code_stage({{n}, {c_type(dtype)}, {"unsigned long long", "unsigned"}, kKeys, names.text()},
                              {from, place(p.keys), place(p.positions)})}));
  sorted.steps_.push_back(sort_step(p, count, at_once ? bits + line_bits : bits));
  if (!at_once) {
    // All lines are sorted together by now; a stable sort by line takes them apart.
    sorted.steps_.push_back(plan_stages(
        {code_stage({{n}, {"unsigned"}, {"unsigned long long"}, fmt::format("  o0[i] = a0[i] / {}u;", lines.size), {}},
                    {place(p.sorted_positions), place(p.keys)})}));
    std::swap(p.positions, p.sorted_positions);
    sorted.steps_.push_back(sort_step(p, count, line_bits));
  }
  sorted.positions_ = p.sorted_positions;
  sorted.keys_ = p.sorted_keys;
  sorted.end_ = p.end;
  return sorted;
}

void SortedLines::run(const kernels::Launch& launch) const {
  for (const auto& step : steps_) step->run(launch);
}

std::unique_ptr<kernels::Plan> plan_after(SortedLines sorted, std::vector<Stage> stages, std::size_t scratch_bytes) {
  std::shared_ptr<const kernels::Plan> then = plan_stages(std::move(stages));
  return kernels::make_plan(std::max(sorted.scratch_bytes(), scratch_bytes),
                            [sorted = std::move(sorted), then](const kernels::Launch& launch) {
                              sorted.run(launch);
                              then->run(launch);
                            });
}

}  // namespace starling::cuda
