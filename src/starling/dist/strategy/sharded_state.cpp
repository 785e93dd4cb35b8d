#include "starling/dist/strategy/sharded_state.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

// Offset of tensors whose memory was cut: it tells them from those that never had any. show() puts it back.
constexpr std::int64_t kInPieces = -1;

void free_whole(const Tensor& tensor) {
  tensor.impl()->storage = Ref<Storage>();
  tensor.impl()->offset = kInPieces;
}

std::size_t row_bytes(const Tensor& tensor) {
  return tensor.size(0) > 0 ? bytes_of(tensor) / static_cast<std::size_t>(tensor.size(0)) : 0;
}

// Copies rows of a whole value into a piece.
void copy_rows(const Tensor& piece, const Tensor& whole, std::int64_t first) {
  const auto* from = static_cast<const std::byte*>(whole.raw());
  const std::size_t begin = static_cast<std::size_t>(first) * row_bytes(whole);
  if (const std::size_t bytes = bytes_of(piece); bytes > 0) std::memcpy(piece.raw(), from + begin, bytes);
}

}  // namespace

const ShardedState::Entry* ShardedState::find(const Tensor& tensor) const {
  const auto found = pieces_.find(tensor.impl());
  return found == pieces_.end() ? nullptr : &found->second;
}

void ShardedState::cut(const Tensor& whole) {
  if (piece(whole) != nullptr) return;
  check(whole.device() == kCpu && whole.contiguous(), "[zero] expected '{}' to be dense and on the CPU, got it on {}",
        whole.name(), to_string(whole.device()));
  check(
      whole.impl()->storage || whole.impl()->offset != kInPieces,
      "[zero] expected '{}' to have memory, got a tensor whose pieces went with the strategy of an earlier run: train "
      "on with that strategy, or make a new optimizer and load a checkpoint",
      whole.name());
  const Piece own = rows(whole, rank_);
  Entry& entry = pieces_[whole.impl()];
  if (!entry.piece.defined()) {
    Shape shape = whole.shape();
    shape[0] = own.size;
    entry = {whole, starling::empty(shape, whole.dtype())};
    entry.piece.set_name(whole.name());
  }
  if (!whole.impl()->storage) return clear(whole);
  copy_rows(entry.piece, whole, own.begin);
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

void ShardedState::put(const Tensor& tensor, const Tensor& value) const {
  const Tensor* own = piece(tensor);
  check(own != nullptr && value.type() == tensor.type(), "[zero] expected a value for the pieces of {}, got {}",
        to_string(tensor.type()), to_string(value.type()));
  copy_rows(*own, value, rows(tensor, rank_).begin);
}

void ShardedState::clear(const Tensor& tensor) const {
  const Tensor* own = piece(tensor);
  check(own != nullptr, "[zero] expected a tensor that is stored in pieces, got '{}'", tensor.name());
  if (const std::size_t bytes = bytes_of(*own); bytes > 0) std::memset(own->raw(), 0, bytes);
}

void ShardedState::show(const Tensor& tensor, Comm& comm) const {
  const Tensor* own = piece(tensor);
  if (own == nullptr) return;
  const Tensor whole = starling::empty(tensor.shape(), tensor.dtype());
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks_; ++rank)
    counts.push_back(rows(tensor, rank).size * static_cast<std::int64_t>(row_bytes(tensor)));
  comm.all_gather(own->raw(), whole.raw(), counts, DType::u8, {.name = tensor.name()}).wait();
  tensor.impl()->storage = whole.impl()->storage;
  tensor.impl()->offset = 0;
}

void ShardedState::hide(const Tensor& tensor) const {
  if (find(tensor) != nullptr) free_whole(tensor);
}

}  // namespace starling::dist
