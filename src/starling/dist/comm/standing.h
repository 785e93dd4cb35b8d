#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/fingerprint.h"

namespace starling {

class Journal;

// What a rank lets the others of its group know while it is held up: what it waits for, and how many calls it has made.
// Enough to tell a rank that is late from ranks that can never meet.
struct Standing {
  enum class State : std::uint8_t {
    unknown,  // it has said nothing, or nothing has arrived
    waiting,  // it waited for this call, and could make no other before that had ended
    left      // it makes no more calls
  };

  State state = State::unknown;
  int peer = -1;                                  // partner of a message waited for
  Fingerprint call{};                             // waited for
  std::uint64_t collectives = 0;                  // made so far
  std::vector<std::uint64_t> sent{}, received{};  // messages, by peer
};

// The counts of its calls.
Standing standing_of(const Journal& journal, Standing::State state, int world);

// Whether rank `other`, as it stands, has not made its part of what the rank `waiter` waits for.
bool lacks(std::span<const Standing> standings, int other, int waiter);

// The ranks that wait in vain: each for one that has left, or for one that waits in vain itself. Standings may be older
// than the truth: no rank is named whose wait has ended or will. Of those named, take the one whose call ended first;
// the rank that it lacked had to make that call while it stood waiting for its own, which ended later.
std::vector<int> hopeless(std::span<const Standing> standings);

// rank 0 waits for all_reduce(sum) f32 x 10 'w' #5; rank 1 waits for recv f32 x 4 from rank 0 #1; rank 2 has left after
// #4 — of the hopeless ranks and of those that have left.
std::string describe_hopeless(std::span<const Standing> standings);

// For backends that send standings as bytes: always of the same size in a group.
std::size_t standing_bytes(int world);
void write_standing(const Standing& standing, std::span<std::byte> to);
Standing read_standing(std::span<const std::byte> from, int world);  // unknown where the bytes make no sense

}  // namespace starling
