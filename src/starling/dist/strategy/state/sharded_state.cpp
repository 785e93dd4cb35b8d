#include "starling/dist/strategy/state/sharded_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/dist/strategy/state/on_host.h"
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
  const Tensor source = read_on_host(whole);
  const auto* from = static_cast<const std::byte*>(source.raw());
  write_on_host(piece, false, [&](const Tensor& host) {
    auto* to = static_cast<std::byte*>(host.raw());
    region.each([&](const Region::Run& run) {
      std::memcpy(to + static_cast<std::size_t>(run.part) * size, from + static_cast<std::size_t>(run.whole) * size,
                  static_cast<std::size_t>(run.count) * size);
    });
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

int ShardedState::owner(const AxisCuts& cuts, int rank) const {
  std::vector<int> place = mesh_.coordinates(rank);
  for (std::size_t i = 0; i < place.size(); ++i) {
    const std::string& axis = mesh_.axes()[i].name;
    if (std::none_of(cuts.begin(), cuts.end(), [&](const AxisCut& one) { return one.axis == axis; })) place[i] = 0;
  }
  return mesh_.rank_at(place);
}

std::vector<int> ShardedState::owners(const AxisCuts& cuts) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    if (owner(cuts, rank) == rank) ranks.push_back(rank);
  }
  return ranks;
}

ShardedState::Entry& ShardedState::entry_of(const Tensor& whole, const AxisCuts& cuts) {
  Entry& entry = pieces_[whole.impl()];
  if (!entry.piece.defined()) {
    entry = {whole, starling::empty(region(whole.shape(), cuts, rank_).shape(), whole.dtype(), whole.device()), cuts};
    entry.piece.set_name(whole.name());
  }
  return entry;
}

void ShardedState::make(const Tensor& whole, const AxisCuts& cuts, FillPiece fill) {
  check(!whole.impl()->storage, "[pieces] expected '{}' without memory, got it whole", whole.name());
  fill(region(whole.shape(), cuts, rank_), entry_of(whole, cuts).piece);
}

void ShardedState::cut(const Tensor& whole, const AxisCuts& cuts) {
  if (cuts.empty() || piece(whole) != nullptr) return;
  check(whole.contiguous(), "[pieces] expected '{}' to be dense, got strides {}", whole.name(),
        to_string(whole.strides()));
  check(whole.impl()->storage || whole.impl()->offset != kInPieces,
        "[pieces] expected '{}' to have memory, got a tensor whose pieces went with the strategy of an earlier run: "
        "train "
        "on with that strategy, or make a new optimizer and load a checkpoint",
        whole.name());
  const Entry& entry = entry_of(whole, cuts);
  if (!whole.impl()->storage) return clear(whole);
  take(region(whole.shape(), cuts, rank_), whole, entry.piece);
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

void ShardedState::put(const Tensor& tensor, std::int64_t first, std::span<const std::byte> bytes) const {
  const Tensor* own = piece(tensor);
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  const std::int64_t end = first + static_cast<std::int64_t>(bytes.size()) / size;
  check(own != nullptr && first >= 0 && end <= tensor.numel(),
        "[pieces] expected bytes of a tensor that is stored in pieces, got {} elements from {} on of '{}'", end - first,
        first, tensor.name());
  if (first == end || own->numel() == 0) return;
  const std::int64_t row = tensor.numel() / tensor.size(0);
  write_on_host(*own, true, [&](const Tensor& host) {
    auto* to = static_cast<std::byte*>(host.raw());
    region(tensor, rank_).each(first / row, (end + row - 1) / row, [&](const Region::Run& run) {
      const std::int64_t from = std::max(first, run.whole), last = std::min(end, run.whole + run.count);
      if (from >= last) return;
      std::memcpy(to + (run.part + from - run.whole) * size, bytes.data() + (from - first) * size,
                  static_cast<std::size_t>((last - from) * size));
    });
  });
}

void ShardedState::clear(const Tensor& tensor) const {
  const Tensor* own = piece(tensor);
  check(own != nullptr, "[pieces] expected a tensor that is stored in pieces, got '{}'", tensor.name());
  const std::size_t bytes = bytes_of(*own);
  if (bytes == 0) return;
  write_on_host(*own, false, [&](const Tensor& host) { std::memset(host.raw(), 0, bytes); });
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
  const Tensor mine = read_on_host(*own);
  comm.all_gather(gives(rank_) ? mine.raw() : nullptr, all.data(), counts, DType::u8, {.name = tensor.name()}).wait();
  const Tensor whole = starling::empty(tensor.shape(), tensor.dtype());
  std::size_t at = 0;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const auto bytes = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
    if (bytes > 0) give(region(tensor, rank), all.data() + at, whole);
    at += bytes;
  }
  tensor.impl()->storage = to(whole, own->device()).impl()->storage;
  tensor.impl()->offset = 0;
}

void ShardedState::hide(const Tensor& tensor) const {
  if (find(tensor) != nullptr) free_whole(tensor);
}

}  // namespace starling::dist
