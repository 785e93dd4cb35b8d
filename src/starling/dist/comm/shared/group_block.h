#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "starling/dist/comm/fingerprint.h"
#include "starling/dist/comm/traffic_table.h"

namespace starling::dist {

// Shared memory of one group of ranks. Each word has one writer, except for claims, which ranks compete for.

inline constexpr std::uint64_t kSharedSlots = 64;    // outstanding collectives
inline constexpr std::uint64_t kSharedMessages = 8;  // outstanding messages of an ordered pair
inline constexpr std::size_t kInlineBytes = 8192;    // largest contribution of a rank that its slot holds
inline constexpr std::size_t kInlineStep =
    kInlineBytes + 320;                                // odd number of cache lines, so that slots share no cache sets
inline constexpr std::size_t kChunkBytes = 256 << 10;  // staged at a time for a collective
inline constexpr std::uint64_t kChunks = 4;            // per rank, used in turns
inline constexpr std::size_t kMessageInline = 1024;
inline constexpr std::size_t kMessageChunkBytes = 64 << 10;
inline constexpr std::uint64_t kMessageChunks = 4;

// Location where a rank's send buffer can be read, or its receive buffer written. Reachable is memory that all ranks
// can touch where it lies: arenas, and everything if the ranks are threads of one process.
enum class BufferLocation : std::uint8_t { nowhere, tiny, in_slot, reachable, outside };

// Arrival of a rank at a collective: everything the others need for a small one, in one cache line.
struct alignas(64) Arrival {
  std::atomic<std::uint64_t> sequence{0};  // stored last
  std::uint64_t digest = 0;                // digest of the fingerprint, which must agree
  BufferLocation source = BufferLocation::nowhere, target = BufferLocation::nowhere;
  std::uint32_t shards = 0;
  std::array<std::byte, 40> tiny = {};
};
static_assert(sizeof(Arrival) == 64);

// Remaining data of a call.
struct SharedPost {
  Fingerprint fingerprint;
  std::uint64_t send = 0, recv = 0;  // offsets from the shared memory, for reachable buffers
  std::int64_t color = 0, key = 0;
  // Split only, set by the first rank of each new group: the sequence number, stored once part_offset is valid.
  std::atomic<std::uint64_t> part{0};
  std::uint64_t part_offset = 0;
};

// Progress counts of a direct operation's units. Upper half: low half of the sequence number; lower half: the count.
struct alignas(64) Claims {
  std::atomic<std::uint64_t> taken{0};
  alignas(64) std::atomic<std::uint64_t> done{0};
};

struct RankFlags {
  // Last collective that is over for this rank: it no longer reads slots up to this one.
  alignas(64) std::atomic<std::uint64_t> finished{0};
  std::atomic<std::uint64_t> started{0};
  // Read by others at every call but rarely written, so kept apart from the words that change with each call.
  alignas(64) std::atomic<std::uint32_t> left{0};
  std::atomic<std::uint32_t> telling{0};  // lock on the rank's status, held briefly
  std::uint32_t world_rank = 0;
  // Chunks of the group's stream that this rank has staged, reduced its share of, and finished reading.
  alignas(64) std::atomic<std::uint64_t> staged{0};
  alignas(64) std::atomic<std::uint64_t> reduced{0};
  alignas(64) std::atomic<std::uint64_t> drained{0};
};

struct MessagePost {
  Fingerprint fingerprint;
  BufferLocation where = BufferLocation::nowhere;
  std::uint64_t offset = 0;
};

struct PairFlags {
  struct alignas(64) Side {
    std::atomic<std::uint64_t> posted{0};
    std::atomic<std::uint64_t> chunks{0};    // chunks the sender has written, or the receiver has read
    std::atomic<std::uint64_t> received{0};  // used on the receiver's side only
  };
  Side sender, receiver;
};

struct GroupHeader {
  std::uint32_t size = 0;
  std::array<char, 124> label = {};  // truncated if longer; zero-terminated
};

// View of a group's shared memory.
class GroupBlock {
 public:
  static std::size_t bytes(int size);
  // Initialises a block in memory of any content.
  static GroupBlock make(std::byte* data, int size, std::string_view label);
  explicit GroupBlock(std::byte* data);

  GroupHeader& header() const { return *reinterpret_cast<GroupHeader*>(data_); }
  RankFlags& flags(int rank) const { return flags_[rank]; }
  Claims& claims(std::uint64_t sequence) const { return claims_[sequence % kSharedSlots]; }
  Arrival& arrival(std::uint64_t sequence, int rank) const { return arrivals_[slot_index(sequence, rank)]; }
  SharedPost& post(std::uint64_t sequence, int rank) const { return posts_[slot_index(sequence, rank)]; }
  std::byte* in_slot(std::uint64_t sequence, int rank) const {
    return inline_ + slot_index(sequence, rank) * kInlineStep;
  }
  // chunk: number in the group's stream.
  std::byte* staging(int rank, std::uint64_t chunk) const;
  std::byte* result(std::uint64_t chunk) const { return results_ + chunk % kChunks * kChunkBytes; }

  TrafficTable traffic() const { return {moved_, size_}; }
  PhaseBits* phases(std::uint64_t sequence) const { return phases_ + slot_index(sequence, 0); }  // by rank

  std::span<std::byte> status(int rank) const;  // status of the rank, as bytes

  PairFlags& pair(int from, int to) const { return pairs_[index(from, to)]; }
  // side 0: sender's, 1: receiver's.
  MessagePost& message(int from, int to, int side, std::uint64_t sequence) const;
  std::byte* message_inline(int from, int to, std::uint64_t sequence) const;
  std::byte* message_chunk(int from, int to, std::uint64_t chunk) const;

 private:
  struct Offsets;
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to);
  }
  std::size_t slot_index(std::uint64_t sequence, int rank) const {
    return static_cast<std::size_t>(sequence % kSharedSlots) * static_cast<std::size_t>(size_) +
           static_cast<std::size_t>(rank);
  }

  std::byte* data_;
  int size_;
  RankFlags* flags_;
  Claims* claims_;
  Arrival* arrivals_;
  SharedPost* posts_;
  PairFlags* pairs_;
  MessagePost* messages_;
  Moved* moved_;
  PhaseBits* phases_;
  std::byte *statuses_, *inline_, *staging_, *results_, *message_inline_, *message_chunks_;
};

}  // namespace starling::dist
