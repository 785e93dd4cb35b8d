#include "starling/dist/comm/shared/group_block.h"

#include <algorithm>
#include <memory>

#include "starling/dist/comm/rank_status.h"

namespace starling::dist {

struct GroupBlock::Offsets {
  std::size_t flags, claims, arrivals, posts, pairs, statuses, moved, phases, messages, in_slot, staging, results,
      message_inline, message_chunks, end;

  explicit Offsets(int ranks) {
    const auto size = static_cast<std::size_t>(ranks);
    std::size_t at = sizeof(GroupHeader);
    const auto next = [&](std::size_t bytes, std::size_t alignment) {
      const std::size_t begin = (at + alignment - 1) / alignment * alignment;
      at = begin + bytes;
      return begin;
    };
    constexpr std::size_t kLine = 64, kPage = 4096;
    flags = next(size * sizeof(RankFlags), kLine);
    claims = next(kSharedSlots * sizeof(Claims), kLine);
    arrivals = next(kSharedSlots * size * sizeof(Arrival), kLine);
    posts = next(kSharedSlots * size * sizeof(SharedPost), kLine);
    pairs = next(size * size * sizeof(PairFlags), kLine);
    statuses = next(size * rank_status_bytes(ranks), kLine);
    moved = next(TrafficTable::entries(ranks) * sizeof(Moved), kLine);
    phases = next(kSharedSlots * size * sizeof(PhaseBits), kLine);
    // Sparse from here on: pages exist only once used.
    messages = next(size * size * 2 * kSharedMessages * sizeof(MessagePost), kPage);
    in_slot = next(kSharedSlots * size * kInlineStep, kPage);
    staging = next(size * kChunks * kChunkBytes, kPage);
    results = next(kChunks * kChunkBytes, kPage);
    message_inline = next(size * size * kSharedMessages * kMessageInline, kPage);
    message_chunks = next(size * size * kMessageChunks * kMessageChunkBytes, kPage);
    end = next(0, kPage);
  }
};

namespace {

template <class T>
void make_all(T* first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::construct_at(first + i);
}

}  // namespace

std::size_t GroupBlock::bytes(int size) { return Offsets(size).end; }

GroupBlock GroupBlock::make(std::byte* data, int size, std::string_view label) {
  auto* header = std::construct_at(reinterpret_cast<GroupHeader*>(data));
  header->size = static_cast<std::uint32_t>(size);
  std::copy_n(label.data(), std::min(label.size(), header->label.size() - 1), header->label.data());
  const GroupBlock block(data);
  const auto ranks = static_cast<std::size_t>(size);
  make_all(block.flags_, ranks);
  make_all(block.claims_, kSharedSlots);
  make_all(block.arrivals_, kSharedSlots * ranks);
  make_all(block.posts_, kSharedSlots * ranks);
  make_all(block.pairs_, ranks * ranks);
  make_all(block.moved_, TrafficTable::entries(size));
  make_all(block.phases_, kSharedSlots * ranks);
  std::fill_n(block.statuses_, ranks * rank_status_bytes(size), std::byte{0});
  return block;
}

GroupBlock::GroupBlock(std::byte* data)
    : data_(data), size_(static_cast<int>(reinterpret_cast<GroupHeader*>(data)->size)) {
  const Offsets at(size_);
  flags_ = reinterpret_cast<RankFlags*>(data + at.flags);
  claims_ = reinterpret_cast<Claims*>(data + at.claims);
  arrivals_ = reinterpret_cast<Arrival*>(data + at.arrivals);
  posts_ = reinterpret_cast<SharedPost*>(data + at.posts);
  pairs_ = reinterpret_cast<PairFlags*>(data + at.pairs);
  messages_ = reinterpret_cast<MessagePost*>(data + at.messages);
  moved_ = reinterpret_cast<Moved*>(data + at.moved);
  phases_ = reinterpret_cast<PhaseBits*>(data + at.phases);
  statuses_ = data + at.statuses;
  inline_ = data + at.in_slot;
  staging_ = data + at.staging;
  results_ = data + at.results;
  message_inline_ = data + at.message_inline;
  message_chunks_ = data + at.message_chunks;
}

std::span<std::byte> GroupBlock::status(int rank) const {
  const std::size_t bytes = rank_status_bytes(size_);
  return {statuses_ + static_cast<std::size_t>(rank) * bytes, bytes};
}

std::byte* GroupBlock::staging(int rank, std::uint64_t chunk) const {
  return staging_ + (static_cast<std::size_t>(rank) * kChunks + chunk % kChunks) * kChunkBytes;
}

MessagePost& GroupBlock::message(int from, int to, int side, std::uint64_t sequence) const {
  return messages_[(index(from, to) * 2 + static_cast<std::size_t>(side)) * kSharedMessages +
                   sequence % kSharedMessages];
}

std::byte* GroupBlock::message_inline(int from, int to, std::uint64_t sequence) const {
  return message_inline_ + (index(from, to) * kSharedMessages + sequence % kSharedMessages) * kMessageInline;
}

std::byte* GroupBlock::message_chunk(int from, int to, std::uint64_t chunk) const {
  return message_chunks_ + (index(from, to) * kMessageChunks + chunk % kMessageChunks) * kMessageChunkBytes;
}

}  // namespace starling::dist
