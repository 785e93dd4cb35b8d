#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace starling::dist {

// Sleeps on a word in memory shared by processes. Returns when woken, when the word no longer equals `seen`, or after
// `time`; may return early.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds time);

// Wakes all sleepers on the word, in any process.
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace starling::dist
