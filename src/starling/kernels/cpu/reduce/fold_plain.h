#pragma once

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/reduce/reduce.h"

namespace starling::kernels {

// Reduction y = f(… f(f(identity, x₀), x₁) …) over the middle axis for operations where order does not matter
// (integers, tests). Plain loops that the compiler vectorises; threads share results, or a single long row.
template <class In, class Out, class F, class Join>
void fold_plain(const In* x, Out* y, ReduceShape s, Out identity, F f, Join join) {
  constexpr std::int64_t kGrain = 32768;
  constexpr std::int64_t kPieces = 64;
  const auto row = [&](const In* from, std::int64_t n) {
    Out total = identity;
    for (std::int64_t i = 0; i < n; ++i) total = f(total, from[i]);
    return total;
  };
  if (s.inner == 1 && s.outer < num_threads()) {
    for (std::int64_t o = 0; o < s.outer; ++o) {
      Out partial[kPieces];
      const std::int64_t pieces = std::clamp<std::int64_t>(s.axis / kGrain, 1, kPieces);
      parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t from = s.axis * p / pieces, to = s.axis * (p + 1) / pieces;
          partial[p] = row(x + o * s.axis + from, to - from);
        }
      });
      y[o] = partial[0];
      for (std::int64_t p = 1; p < pieces; ++p) y[o] = join(y[o], partial[p]);
    }
    return;
  }
  if (s.inner == 1) {
    parallel_for(s.outer, std::max<std::int64_t>(kGrain / s.axis, 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) y[o] = row(x + o * s.axis, s.axis);
    });
    return;
  }
  constexpr std::int64_t kColumns = 512;
  const std::int64_t across = (s.inner + kColumns - 1) / kColumns;
  const std::int64_t work = std::max<std::int64_t>(s.axis * std::min(s.inner, kColumns), 1);
  parallel_for(s.outer * across, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t o = t / across, c = t % across * kColumns, cols = std::min(kColumns, s.inner - c);
      Out* to = y + o * s.inner + c;
      std::fill_n(to, cols, identity);
      for (std::int64_t a = 0; a < s.axis; ++a) {
        const In* from = x + (o * s.axis + a) * s.inner + c;
        for (std::int64_t i = 0; i < cols; ++i) to[i] = f(to[i], from[i]);
      }
    }
  });
}

}  // namespace starling::kernels
