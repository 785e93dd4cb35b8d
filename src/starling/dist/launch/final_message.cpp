#include "starling/dist/launch/final_message.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace starling::dist {
namespace {

struct Words {
  std::array<char, 256> who{};
  std::atomic<std::size_t> length{0};  // length of `who`; 0: not prepared
  std::atomic<std::int64_t> step{-1};
  std::atomic<bool> failed{false};
};
static_assert(std::atomic<std::size_t>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

Words words;

// Output line, built without heap allocation.
class Line {
 public:
  Line() noexcept { add(std::string_view(words.who.data(), words.length.load(std::memory_order_acquire))); }

  bool empty() const noexcept { return size_ == 0; }
  void add(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), bytes_.size() - size_);
    std::memcpy(bytes_.data() + size_, text.data(), count);
    size_ += count;
  }
  void add(std::int64_t number) noexcept {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    add(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }
  void write() noexcept {
    if (const std::int64_t step = words.step.load(std::memory_order_relaxed); step >= 0) {
      add(" after step ");
      add(step);
    }
    add("\n");
    (void)!::write(STDERR_FILENO, bytes_.data(), size_);
  }

 private:
  std::array<char, 384> bytes_;  // fits everything that is added
  std::size_t size_ = 0;
};

struct sigaction before;  // previous SIGTERM action

void on_end(int signal) {
  const int number = errno;
  write_final_message(signal);
  ::sigaction(signal, &before, nullptr);
  ::raise(signal);  // delivered when this handler returns
  errno = number;
}

void watch_for_the_end() {
  struct sigaction now {};
  if (::sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler == SIG_IGN || now.sa_handler == on_end) return;
  before = now;
  struct sigaction ours {};
  ours.sa_handler = on_end;
  ::sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &ours, nullptr);
}

}  // namespace

void prepare_final_message(int rank, const std::string& host) {
  const std::string who = fmt::format("starling: rank {} on {} ", rank, host);
  const std::size_t length = std::min(who.size(), words.who.size());
  std::copy_n(who.begin(), length, words.who.begin());
  words.length.store(length, std::memory_order_release);
  watch_for_the_end();
}

void note_last_step(std::int64_t step) noexcept { words.step.store(step, std::memory_order_relaxed); }

void write_final_message(int signal) noexcept {
  const int before = errno;
  Line line;
  if (line.empty()) return;
  line.add("is ended by ");
  if (signal == SIGTERM || signal == SIGINT) {
    line.add(signal == SIGTERM ? "SIGTERM" : "SIGINT");
  } else {
    line.add("signal ");
    line.add(std::int64_t{signal});
  }
  line.write();
  errno = before;
}

void write_failure() noexcept {
  Line line;
  if (line.empty() || words.failed.exchange(true)) return;
  line.add("failed");
  line.write();
}

}  // namespace starling::dist
