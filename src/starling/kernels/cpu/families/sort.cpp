#include "starling/ops/api/sort.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/index/sort_keys.h"
#include "starling/kernels/kernel_table.h"
#include "starling/tensor/dispatch.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kRadixFrom = 512;                    // shorter lines are sorted by comparison
constexpr std::int64_t kMostShort = std::int64_t{1} << 31;  // most indices of short entries, and counts of a radix pass
constexpr std::int64_t kGrain = 4096;                       // elements worth a thread

struct Lines {
  std::int64_t outer = 1, size = 0, inner = 1;
  std::int64_t kept = 0;  // elements kept per line
  bool descending = false;
  bool sorted = true;
  bool values = true;  // false: only indices
  int threads = 1;
  std::int64_t count() const { return outer * inner; }
};

// Orders the kept entries, by value or by position in the line.
template <class Entry>
void arrange(const Lines& lines, Entry* entries) {
  if (lines.sorted) {
    std::sort(entries, entries + lines.kept);
  } else {
    std::sort(entries, entries + lines.kept, [](const Entry& a, const Entry& b) { return a.place() < b.place(); });
  }
}

template <class Entry>
void order_line(const Lines& lines, Entry* entries, Entry* spare) {
  Entry* end = entries + lines.size;
  if (lines.kept == lines.size && lines.sorted) {
    if constexpr (std::is_same_v<Entry, ShortEntry>) {
      if (lines.size >= kRadixFrom) return radix_sort(entries, spare, lines.size);
    }
    std::sort(entries, end);
    return;
  }
  if (lines.kept < lines.size) std::nth_element(entries, entries + lines.kept, end);
  arrange(lines, entries);
}

// Top-k of a long line: candidates that beat the worst of the best so far are collected and pruned now and then.
template <class T, class Entry, class Key>
void pick_few(const Lines& lines, const T* line, Key turn, Entry* entries) {
  const std::int64_t room = std::max<std::int64_t>(2 * lines.kept, 128);
  std::int64_t count = 0;
  bool full = false;
  Entry worst;
  const auto thin = [&] {
    std::nth_element(entries, entries + lines.kept - 1, entries + count);
    worst = entries[lines.kept - 1];
    count = lines.kept;
    full = true;
  };
  for (std::int64_t i = 0; i < lines.size; ++i) {
    const Entry entry(sort_key(line[i * lines.inner]) ^ turn, i);
    if (full && !(entry < worst)) continue;
    entries[count++] = entry;
    if (count == room) thin();
  }
  if (count > lines.kept) thin();
  arrange(lines, entries);
}

template <class T, class Entry>
void run_line(const Lines& lines, const Launch& launch, std::int64_t l, Entry* entries) {
  using Key = decltype(sort_key(T{}));
  const std::int64_t o = l / lines.inner, j = l % lines.inner;
  const T* line = static_cast<const T*>(launch.in[0]) + o * lines.size * lines.inner + j;
  const Key turn = lines.descending ? std::numeric_limits<Key>::max() : Key{0};
  if (lines.kept <= lines.size / 8 && lines.size >= 256) {
    pick_few(lines, line, turn, entries);
  } else {
    for (std::int64_t i = 0; i < lines.size; ++i) entries[i] = Entry(sort_key(line[i * lines.inner]) ^ turn, i);
    order_line(lines, entries, entries + lines.size);
  }
  auto* indices = static_cast<std::int64_t*>(launch.out[lines.values ? 1 : 0]) + o * lines.kept * lines.inner + j;
  for (std::int64_t i = 0; i < lines.kept; ++i) indices[i * lines.inner] = entries[i].place();
  if (!lines.values) return;
  T* values = static_cast<T*>(launch.out[0]) + o * lines.kept * lines.inner + j;
  for (std::int64_t i = 0; i < lines.kept; ++i) values[i * lines.inner] = line[entries[i].place() * lines.inner];
}

// Plan in which each thread sorts in its own part of the scratch.
template <class T, class Entry>
std::unique_ptr<Plan> plan_as(const Lines& lines) {
  const std::size_t room = 2 * static_cast<std::size_t>(lines.size);
  const std::int64_t worth = lines.count() * lines.size / kGrain;
  const int pieces = static_cast<int>(std::clamp<std::int64_t>(std::min<std::int64_t>(lines.threads, lines.count()), 1,
                                                               std::max<std::int64_t>(worth, 1)));
  return make_plan(static_cast<std::size_t>(pieces) * room * sizeof(Entry), [=](const Launch& launch) {
    if (lines.count() * lines.kept == 0) return;
    parallel_run(pieces, [&](int piece) {
      Entry* entries = static_cast<Entry*>(launch.scratch) + static_cast<std::size_t>(piece) * room;
      const std::int64_t begin = lines.count() * piece / pieces, end = lines.count() * (piece + 1) / pieces;
      for (std::int64_t l = begin; l < end; ++l) run_line<T>(lines, launch, l, entries);
    });
  });
}

std::unique_ptr<Plan> plan_lines(const PlanRequest& request, std::int64_t given, Lines lines) {
  const Shape& shape = request.in[0].shape;
  const int axis = normalize_axis(given, shape.rank(), "sort");
  lines.size = shape[axis];
  lines.kept = request.out[0].shape[axis];
  lines.values = request.out.size() == 2;
  lines.threads = request.threads;
  for (int d = 0; d < shape.rank(); ++d) (d < axis ? lines.outer : lines.inner) *= d == axis ? 1 : shape[d];
  return dispatch(request.in[0].dtype, [&]<class T>() -> std::unique_ptr<Plan> {
    if constexpr (sizeof(T) < 8) {
      if (lines.size < kMostShort) return plan_as<T, ShortEntry>(lines);
    }
    return plan_as<T, LongEntry>(lines);
  });
}

std::unique_ptr<Plan> plan_sort(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SortAttrs>();
  return plan_lines(request, a.axis, {.descending = a.descending});
}

std::unique_ptr<Plan> plan_topk(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::TopkAttrs>();
  return plan_lines(request, a.axis, {.descending = a.largest, .sorted = a.sorted});
}

}  // namespace

void register_cpu_sort(KernelTable& table) {
  table.add("sort", DeviceKind::cpu, {"keys", Accepts::contiguous, plan_sort});
  table.add("argsort", DeviceKind::cpu, {"keys", Accepts::contiguous, plan_sort});
  table.add("topk", DeviceKind::cpu, {"keys", Accepts::contiguous, plan_topk});
}

}  // namespace starling::kernels
