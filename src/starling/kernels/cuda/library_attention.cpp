#include "starling/kernels/cuda/library_attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::cuda {
namespace {

using device::Attention;
using device::Real;

// Addresses of rows are multiples of 16 bytes, and no element stands for several.
bool fits(const Attention& a, const Attention::Rows& rows, std::int64_t count) {
  const auto whole = [](std::int64_t size, std::int64_t stride) {
    return size == 1 || (stride > 0 && stride % 8 == 0);
  };
  if (!whole(count, rows.row)) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (!whole(a.sizes[i], rows.leading[i])) return false;
  }
  return true;
}

// Bytes from the first to the last element of an operand of 16-bit floats.
std::size_t spanned(const Attention& a, const Attention::Rows& rows, long long count, long long width) {
  long long last = (count - 1) * rows.row + width;
  for (int i = 0; i < a.rank; ++i) last += (a.sizes[i] - 1) * rows.leading[i];
  return static_cast<std::size_t>(last) * 2;
}

std::size_t floats(const Attention& a, bool there) {
  return there ? static_cast<std::size_t>(a.batch * a.queries) * sizeof(float) : 0;
}

using Key = std::vector<long long>;
Key key_of(AttentionPass pass, const Attention& a, Real kind) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  Key key{static_cast<long long>(pass),
          static_cast<long long>(kind),
          device,
          a.batch,
          a.queries,
          a.keys,
          a.d,
          a.dv,
          a.causal,
          a.rank};
  key.insert(key.end(), a.sizes, a.sizes + a.rank);
  for (const Attention::Rows& rows : {a.q, a.k, a.v, a.y, a.dy, a.dq, a.dk, a.dv_rows}) {
    key.push_back(rows.row);
    key.insert(key.end(), rows.leading, rows.leading + a.rank);
  }
  key.push_back(static_cast<long long>(a.scale * 1e6f));
  return key;
}

float time_own(AttentionPass pass, const Attention& a, Real kind) {
  if (!device::takes_flash(a)) return std::numeric_limits<float>::infinity();
  check_cuda(device::load_flash(kind, a.d), "loading a kernel");
  const AttentionTrial trial(pass, a);
  return time_on_device([&](cudaStream_t stream) { trial.run_own(kind, stream); });
}

}  // namespace

AttentionTrial::AttentionTrial(AttentionPass pass, const Attention& a)
    : pass_(pass),
      attention_(a),
      q_(spanned(a, a.q, a.queries, a.d)),
      k_(spanned(a, a.k, a.keys, a.d)),
      v_(spanned(a, a.v, a.keys, a.dv)),
      y_(spanned(a, a.y, a.queries, a.dv)),
      lse_(floats(a, true)),
      dy_(pass == AttentionPass::backward ? spanned(a, a.dy, a.queries, a.dv) : 0),
      dq_(pass == AttentionPass::backward ? spanned(a, a.dq, a.queries, a.d) : 0),
      dk_(pass == AttentionPass::backward ? spanned(a, a.dk, a.keys, a.d) : 0),
      dv_(pass == AttentionPass::backward ? spanned(a, a.dv_rows, a.keys, a.dv) : 0),
      delta_(floats(a, pass == AttentionPass::backward)) {}

device::FlashForward AttentionTrial::forward() const {
  return {q_.data(), k_.data(), v_.data(), y_.data(), {lse_.data(), Real::f32}};
}

device::FlashBackward AttentionTrial::backward() const {
  return {q_.data(),
          k_.data(),
          v_.data(),
          y_.data(),
          dy_.data(),
          {lse_.data(), Real::f32},
          {lse_.data(), Real::f32},
          static_cast<float*>(delta_.data()),
          dq_.data(),
          dk_.data(),
          dv_.data()};
}

void AttentionTrial::run(const LibraryAttention& attention, void* scratch, cudaStream_t stream) const {
  if (pass_ == AttentionPass::forward)
    attention.run(forward(), scratch, stream);
  else
    attention.run(backward(), scratch, stream);
}

void AttentionTrial::run_own(Real kind, cudaStream_t stream) const {
  check_cuda(pass_ == AttentionPass::forward ? device::launch_flash(attention_, kind, forward(), stream)
                                             : device::launch_flash_backward(attention_, kind, backward(), stream),
             "launching attention");
}

bool cudnn_takes(AttentionPass pass, const Attention& a, std::size_t version) {
  if (version < 91002) return false;  // earlier ones want other graphs, or give wrong results
  const bool sizes = a.queries > 1 && a.keys > 1 && a.batch > 0 && a.d % 8 == 0 && a.dv % 8 == 0 && a.d > 0 && a.dv > 0;
  if (!sizes || a.d > 256 || a.dv > 256 || a.rank > 2 || a.mask_kind != Attention::none) return false;
  const bool forward =
      fits(a, a.q, a.queries) && fits(a, a.k, a.keys) && fits(a, a.v, a.keys) && fits(a, a.y, a.queries);
  if (!forward || pass == AttentionPass::forward) return forward;
  if (version <= 91500 && a.keys % 128 != 0) return false;  // gradients of a last tile that is not full were wrong
  return fits(a, a.dy, a.queries) && fits(a, a.dq, a.queries) && fits(a, a.dk, a.keys) && fits(a, a.dv_rows, a.keys);
}

std::shared_ptr<const LibraryAttention> faster_attention(AttentionPass pass, const Attention& a, Real kind) {
  static std::mutex mutex;
  static auto& known = *new std::map<Key, std::shared_ptr<const LibraryAttention>>;
  const std::lock_guard lock(mutex);
  const auto [slot, fresh] = known.try_emplace(key_of(pass, a, kind));
  if (!fresh) return slot->second;
  const TimedAttention theirs = cudnn_attention(pass, a, kind);
  if (theirs.attention && theirs.ms < time_own(pass, a, kind)) slot->second = theirs.attention;
  return slot->second;
}

}  // namespace starling::cuda
