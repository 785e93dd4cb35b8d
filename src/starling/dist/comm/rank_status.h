#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/fingerprint.h"

namespace starling::dist {

class Journal;

// Status a rank publishes to its group while blocked: the call it waits for and how many calls it has made. Enough to
// tell a late rank from a deadlock.
struct RankStatus {
  enum class State : std::uint8_t {
    unknown,  // no status sent, or none arrived yet
    waiting,  // blocked in `call`; makes no other call before that ends
    left      // finished; makes no more calls
  };

  State state = State::unknown;
  int peer = -1;                                  // partner of the awaited message; -1 for a collective
  Fingerprint call{};                             // the awaited call
  std::uint64_t collectives = 0;                  // collectives called so far
  std::vector<std::uint64_t> sent{}, received{};  // message counts, by peer
};

// Status of this rank in the given state, with its call counts; the caller fills in peer and call.
RankStatus rank_status_of(const Journal& journal, RankStatus::State state, int world);

// True if rank `other`, by its known status, has not yet made the call that rank `waiter` waits for.
bool lacks(std::span<const RankStatus> statuses, int other, int waiter);

// Deadlocked ranks: each waits for a rank that has left, or for another deadlocked rank. Statuses may be stale, yet no
// rank is reported whose wait has ended or will end. Proof: take the reported call that ends first; the rank it lacked
// had to make that call while still blocked in its own, which ends later.
std::vector<int> hopeless(std::span<const RankStatus> statuses);

// Text on the deadlocked ranks and those that have left, such as "rank 0 waits for all_reduce(sum) f32 x 10 'w' #5;
// rank 1 waits for recv f32 x 4 from rank 0 #1; rank 2 has left after #4".
std::string describe_hopeless(std::span<const RankStatus> statuses);

// Serialised form for backends that send statuses as bytes; of equal size on all ranks of a group.
std::size_t rank_status_bytes(int world);
void write_rank_status(const RankStatus& status, std::span<std::byte> to);
RankStatus read_rank_status(std::span<const std::byte> from, int world);  // unknown if the bytes are invalid

}  // namespace starling::dist
