#include "starling/base/thread/thread_team.h"

#include <chrono>
#include <system_error>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "starling/base/thread/forked.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBurst = 64;                               // polls between two clock reads
constexpr auto kAlone = std::chrono::microseconds(50);   // spin time with a core per thread
constexpr auto kCrowded = std::chrono::microseconds(1);  // spin time with more threads than cores
constexpr auto kAwake = std::chrono::milliseconds(1);    // time until sleep; yields after every burst meanwhile

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Polls until done() or until it is time to sleep; returns done().
template <class Done>
bool spin(bool crowded, Done done) {
  for (int i = 0; i < kBurst; ++i) {
    if (done()) return true;
    pause();
  }
  const auto start = Clock::now();
  while (true) {
    for (int i = 0; i < kBurst; ++i) {
      if (done()) return true;
      pause();
    }
    const auto waited = Clock::now() - start;
    if (waited > kAwake) return done();
    if (waited > (crowded ? kCrowded : kAlone)) std::this_thread::yield();
  }
}

}  // namespace

ThreadTeam::~ThreadTeam() {
  leave_parents_helpers();
  closing_ = true;
  for (auto& helper : helpers_) {
    helper->calls.fetch_add(1);
    helper->calls.notify_one();
  }
  for (auto& helper : helpers_) helper->thread.join();
}

// Threads of the parent do not exist after a fork: nobody can wake, join or destroy them, so they are left behind.
void ThreadTeam::leave_parents_helpers() {
  const std::uint32_t now = forks();
  if (forks_ == now) return;
  forks_ = now;
  if (helpers_.empty()) return;
  [[maybe_unused]] const auto* left = new auto(std::exchange(helpers_, {}));
}

int ThreadTeam::grow(int wanted) {
  if (static_cast<int>(helpers_.size()) >= wanted) return static_cast<int>(helpers_.size());
  if (wanted >= static_cast<int>(std::thread::hardware_concurrency())) crowded_.store(true, std::memory_order_relaxed);
  while (static_cast<int>(helpers_.size()) < wanted) {
    auto helper = std::make_unique<Helper>();
    const int piece = static_cast<int>(helpers_.size()) + 1;
    try {
      helper->thread = std::thread([this, h = helper.get(), piece] { loop(*h, piece); });
    } catch (const std::system_error&) {
      break;
    }
    helpers_.push_back(std::move(helper));
  }
  return static_cast<int>(helpers_.size());
}

void ThreadTeam::run(int pieces, FunctionRef<void(int)> body) {
  leave_parents_helpers();
  const int called = std::min(pieces - 1, grow(pieces - 1));
  body_ = &body;
  pending_.store(called, std::memory_order_relaxed);
  for (int i = 0; i < called; ++i) {
    auto& calls = helpers_[static_cast<std::size_t>(i)]->calls;
    calls.fetch_add(1);  // full barrier: a helper going to sleep sees this increment, or the next line sees it asleep
    calls.notify_one();
  }
  body(0);
  for (int piece = called + 1; piece < pieces; ++piece) body(piece);
  if (spin(crowded_.load(std::memory_order_relaxed), [&] { return pending_.load(std::memory_order_acquire) == 0; }))
    return;
  for (int left = pending_.load(std::memory_order_acquire); left != 0; left = pending_.load(std::memory_order_acquire))
    pending_.wait(left, std::memory_order_acquire);
}

void ThreadTeam::loop(Helper& helper, int piece) {
  std::uint32_t seen = 0;
  while (true) {
    const auto called = [&] { return helper.calls.load(std::memory_order_acquire) != seen; };
    while (!spin(crowded_.load(std::memory_order_relaxed), called)) helper.calls.wait(seen, std::memory_order_acquire);
    ++seen;
    if (closing_) return;
    (*body_)(piece);
    if (pending_.fetch_sub(1) == 1) pending_.notify_one();
  }
}

}  // namespace starling
