#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace starling {

// Sleeping on a word that lies in memory shared by processes. Returns when woken, when the word no longer has the value
// seen, or after that time; may return early.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds time);

// Wakes all that sleep on it, in any process.
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace starling
