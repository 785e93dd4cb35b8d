#include "starling/dist/strategy/sharded_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

// Offset of tensors whose memory was cut: it tells them from those that never had any. show() puts it back.
constexpr std::int64_t kInPieces = -1;

void free_whole(const Tensor& tensor) {
  tensor.impl()->storage = Ref<Storage>();
  tensor.impl()->offset = kInPieces;
}

void take(const Region& region, const Tensor& whole, const Tensor& piece) {
  const std::size_t size = size_of(whole.dtype());
  if (bytes_of(piece) == 0) return;
  const auto* from = static_cast<const std::byte*>(whole.raw());
  auto* to = static_cast<std::byte*>(piece.raw());
  region.each([&](const Region::Run& run) {
    std::memcpy(to + static_cast<std::size_t>(run.part) * size, from + static_cast<std::size_t>(run.whole) * size,
                static_cast<std::size_t>(run.count) * size);
  });
}

void give(const Region& region, const std::byte* piece, const Tensor& whole) {
  const std::size_t size = size_of(whole.dtype());
  auto* to = static_cast<std::byte*>(whole.raw());
  region.each([&](const Region::Run& run) {
    std::memcpy(to + static_cast<std::size_t>(run.whole) * size, piece + static_cast<std::size_t>(run.part) * size,
                static_cast<std::size_t>(run.count) * size);
  });
}

}  // namespace

const ShardedState::Entry* ShardedState::find(const Tensor& tensor) const {
  const auto found = pieces_.find(tensor.impl());
  return found == pieces_.end() ? nullptr : &found->second;
}

Region ShardedState::region(const Shape& whole, const AxisCuts& cuts, int rank) const {
  Region region(whole);
  for (const auto& [axis, layout] : cuts)
    region.cut(layout.dim, layout.blocks, mesh_.coordinate(rank, axis), mesh_.size(axis));
  return region;
}

std::vector<int> ShardedState::owners(const AxisCuts& cuts) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const bool first = std::all_of(mesh_.axes().begin(), mesh_.axes().end(), [&](const MeshAxis& axis) {
      const bool cut = std::any_of(cuts.begin(), cuts.end(), [&](const AxisCut& one) { return one.axis == axis.name; });
      return cut || mesh_.coordinate(rank, axis.name) == 0;
    });
    if (first) ranks.push_back(rank);
  }
  return ranks;
}

void ShardedState::cut(const Tensor& whole, const AxisCuts& cuts) {
  if (cuts.empty() || piece(whole) != nullptr) return;
  check(whole.device() == kCpu && whole.contiguous(), "[pieces] expected '{}' to be dense and on the CPU, got it on {}",
        whole.name(), to_string(whole.device()));
  check(whole.impl()->storage || whole.impl()->offset != kInPieces,
        "[pieces] expected '{}' to have memory, got a tensor whose pieces went with the strategy of an earlier run: "
        "train "
        "on with that strategy, or make a new optimizer and load a checkpoint",
        whole.name());
  const Region own = region(whole.shape(), cuts, rank_);
  Entry& entry = pieces_[whole.impl()];
  if (!entry.piece.defined()) {
    entry = {whole, starling::empty(own.shape(), whole.dtype()), cuts};
    entry.piece.set_name(whole.name());
  }
  if (!whole.impl()->storage) return clear(whole);
  take(own, whole, entry.piece);
  free_whole(whole);
}

const Tensor* ShardedState::piece(const Tensor& tensor) const {
  const Entry* entry = find(tensor);
  return entry != nullptr && !tensor.impl()->storage ? &entry->piece : nullptr;
}

const Tensor& ShardedState::local(const Tensor& tensor) const {
  const Tensor* own = piece(tensor);
  return own != nullptr ? *own : tensor;
}

const AxisCuts& ShardedState::cuts(const Tensor& tensor) const {
  static const AxisCuts kNone;
  const Entry* entry = find(tensor);
  return entry == nullptr ? kNone : entry->cuts;
}

bool ShardedState::uneven() const {
  const auto differs = [&](const auto& entry) {
    std::int64_t left = 0;
    int dim = -1;
    for (const AxisCut& cut : entry.second.cuts) {
      if (cut.axis == kDataAxis) continue;
      if (cut.layout.dim != dim) left = entry.second.handle.size(cut.layout.dim);
      dim = cut.layout.dim;
      if (left % (cut.layout.blocks * mesh_.size(cut.axis)) != 0) return true;
      left /= mesh_.size(cut.axis);
    }
    return false;
  };
  return std::any_of(pieces_.begin(), pieces_.end(), differs);
}

void ShardedState::put(const Tensor& tensor, const Tensor& value) const {
  const Tensor* own = piece(tensor);
  check(own != nullptr && value.type() == tensor.type(), "[pieces] expected a value for the pieces of {}, got {}",
        to_string(tensor.type()), to_string(value.type()));
  take(region(tensor, rank_), value, *own);
}

void ShardedState::clear(const Tensor& tensor) const {
  const Tensor* own = piece(tensor);
  check(own != nullptr, "[pieces] expected a tensor that is stored in pieces, got '{}'", tensor.name());
  if (const std::size_t bytes = bytes_of(*own); bytes > 0) std::memset(own->raw(), 0, bytes);
}

void ShardedState::show(const Tensor& tensor, Comm& comm) const {
  const Tensor* own = piece(tensor);
  if (own == nullptr) return;
  const std::vector<int> givers = owners(cuts(tensor));
  const auto gives = [&](int rank) { return std::find(givers.begin(), givers.end(), rank) != givers.end(); };
  std::vector<std::int64_t> counts;
  std::int64_t sum = 0;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const std::int64_t bytes =
        gives(rank) ? region(tensor, rank).shape().numel() * static_cast<std::int64_t>(size_of(tensor.dtype())) : 0;
    counts.push_back(bytes);
    sum += bytes;
  }
  std::vector<std::byte> all(static_cast<std::size_t>(sum));
  comm.all_gather(gives(rank_) ? own->raw() : nullptr, all.data(), counts, DType::u8, {.name = tensor.name()}).wait();
  const Tensor whole = starling::empty(tensor.shape(), tensor.dtype());
  std::size_t at = 0;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const auto bytes = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
    if (bytes > 0) give(region(tensor, rank), all.data() + at, whole);
    at += bytes;
  }
  tensor.impl()->storage = whole.impl()->storage;
  tensor.impl()->offset = 0;
}

void ShardedState::hide(const Tensor& tensor) const {
  if (find(tensor) != nullptr) free_whole(tensor);
}

}  // namespace starling::dist
