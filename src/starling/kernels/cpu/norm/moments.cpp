#include "starling/kernels/cpu/norm/moments.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/norm/normalize.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kPieces = 64;

// Moments of one long result: pieces of fixed size, joined in order.
template <class T>
Moments long_moments(const NormalizeFns<T>& fns, const T* x, std::int64_t n) {
  Moments part[kPieces];
  const std::int64_t pieces = std::clamp<std::int64_t>(n / kGrain, 1, kPieces);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = n * p / pieces, to = n * (p + 1) / pieces;
      part[p].count = static_cast<double>(to - from);
      fns.moments(x + from, Runs{1, 0, to - from}, &part[p].mean, &part[p].m2);
    }
  });
  Moments all;
  for (std::int64_t p = 0; p < pieces; ++p) all.add(part[p]);
  return all;
}

}  // namespace

template <class T>
void channel_moments(const T* x, std::int64_t images, std::int64_t channels, std::int64_t length, double* mean,
                     double* m2) {
  const auto fns = normalize_fns<T>();
  if (images == 1 && channels < num_threads()) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moments all = long_moments(fns, x + c * length, length);
      mean[c] = all.mean;
      m2[c] = all.m2;
    }
    return;
  }
  const std::int64_t work = std::max<std::int64_t>(images * length, 1);
  parallel_for(channels, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      // A single image is split like a long result, so that the number of threads does not matter.
      if (images == 1 && length >= 2 * kGrain) {
        const Moments all = long_moments(fns, x + c * length, length);
        mean[c] = all.mean;
        m2[c] = all.m2;
      } else {
        fns.moments(x + c * length, Runs{images, channels * length, length}, &mean[c], &m2[c]);
      }
    }
  });
}

template <class T>
void column_moments(const T* x, std::int64_t outer, std::int64_t axis, std::int64_t inner, double* mean, double* m2) {
  const auto fns = normalize_fns<T>();
  const std::int64_t strip = column_strip(inner, outer > 1 ? 1 : num_threads());
  const std::int64_t across = (inner + strip - 1) / strip;
  const std::int64_t work = std::max<std::int64_t>(axis * std::min(inner, strip), 1);
  parallel_for(outer * across, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t o = t / across, c = t % across * strip;
      fns.column_moments(x + o * axis * inner + c, axis, inner, std::min(strip, inner - c), mean + o * inner + c,
                         m2 + o * inner + c);
    }
  });
}

template void channel_moments(const float*, std::int64_t, std::int64_t, std::int64_t, double*, double*);
template void channel_moments(const double*, std::int64_t, std::int64_t, std::int64_t, double*, double*);
template void column_moments(const float*, std::int64_t, std::int64_t, std::int64_t, double*, double*);
template void column_moments(const double*, std::int64_t, std::int64_t, std::int64_t, double*, double*);

}  // namespace starling::kernels
