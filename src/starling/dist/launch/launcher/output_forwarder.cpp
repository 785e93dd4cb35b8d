#include "starling/dist/launch/launcher/output_forwarder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "starling/dist/launch/launcher/blocking_signals.h"

namespace starling::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kAtOnce = 4096;  // PIPE_BUF: a pipe takes so much as a whole, unmixed with what others write
constexpr milliseconds kAskEvery{20};

// Bytes to write next: whole lines if one ends among them, so that the lines of two consoles on one reader do not mix.
std::string_view next_piece(std::string_view bytes) {
  if (bytes.size() <= kAtOnce) return bytes;
  const std::size_t end = bytes.rfind('\n', kAtOnce - 1);
  return bytes.substr(0, end == std::string_view::npos ? kAtOnce : end + 1);
}

}  // namespace

struct Console::Queue {
  UniqueFd fd;
  std::mutex mutex{};
  std::condition_variable filled{}, emptied{};
  std::string waiting{};
  std::size_t unwritten = 0;  // waiting, and what the thread has taken and not written yet
  bool closed = false;

  explicit Queue(int shared) : fd(::fcntl(shared, F_DUPFD_CLOEXEC, 3)) {}

  void add(std::string_view bytes) {
    const std::lock_guard lock(mutex);
    waiting += bytes;
    unwritten += bytes.size();
    filled.notify_one();
  }

  void run() {
    for (std::string taken;; taken.clear()) {
      {
        std::unique_lock lock(mutex);
        filled.wait(lock, [&] { return closed || !waiting.empty(); });
        if (closed) return;
        taken.swap(waiting);
      }
      if (!write(taken)) return;
    }
  }

  // False: the console has been closed meanwhile.
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd.get(), bytes.data(), next_piece(bytes).size());
      const int why = errno;
      if (written <= 0 && why == EAGAIN) {  // another program has made it non-blocking
        pollfd one{fd.get(), POLLOUT, 0};
        ::poll(&one, 1, 100);
      }
      const bool gone = written < 0 && why != EAGAIN && why != EINTR;
      const std::size_t done = gone ? bytes.size() : static_cast<std::size_t>(std::max<ssize_t>(written, 0));
      bytes.remove_prefix(done);
      const std::lock_guard lock(mutex);
      unwritten -= done;
      emptied.notify_all();
      if (closed) return false;
    }
    return true;
  }
};

Console::Console(int fd) : queue_(std::make_shared<Queue>(fd)) {
  const BlockingSignals blocking;
  std::thread([queue = queue_] { queue->run(); }).detach();
}

Console::~Console() {
  const std::lock_guard lock(queue_->mutex);
  queue_->closed = true;
  queue_->filled.notify_one();
}

void Console::line(std::string_view text) {
  queue_->add(fmt::format("{}{}\n", drawn_ ? "\r\033[K" : "", text));
  drawn_ = false;
  ++lines_;
}

void Console::draw(std::string_view bytes) {
  if (bytes.empty()) return;
  drawn_ = bytes.back() != '\n';
  lines_ += std::count(bytes.begin(), bytes.end(), '\n');
  queue_->add(bytes);
}

bool Console::full() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->unwritten >= kRoom;
}

bool Console::flush(milliseconds stuck, const std::function<bool()>& give_up) {
  std::unique_lock lock(queue_->mutex);
  auto moved = Clock::now();
  for (std::size_t before = queue_->unwritten; queue_->unwritten > 0;) {
    queue_->emptied.wait_for(lock, kAskEvery);
    if (queue_->unwritten != before) moved = Clock::now();
    before = queue_->unwritten;
    if (Clock::now() - moved >= stuck || (give_up && give_up())) break;
  }
  return queue_->unwritten == 0;
}

bool OutputForwarder::read(const UniqueFd& from) { return held_up() || read(from, kOneRound); }

void OutputForwarder::read_rest(const UniqueFd& from) {
  int left = 0;
  if (::ioctl(from.get(), FIONREAD, &left) == 0 && left > 0) read(from, static_cast<std::size_t>(left));
}

bool OutputForwarder::read(const UniqueFd& from, std::size_t most) {
  char bytes[16384];
  for (std::size_t taken = 0; taken < most;) {
    const ssize_t got = ::read(from.get(), bytes, std::min(sizeof bytes, most - taken));
    if (got > 0) {
      take({bytes, static_cast<std::size_t>(got)});
      taken += static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      return true;
    } else if (got == 0 || errno != EINTR) {
      return false;  // a closed pseudo-terminal reports EIO
    }
  }
  return true;
}

void OutputForwarder::take(std::string_view bytes) {
  if (drawn_) console_->draw(bytes);
  for (const char c : bytes) {
    if (c == '\n') {
      end_line();
    } else if (c == '\r' && drawn_) {
      unfinished_.clear();  // overwritten by the next drawing
    } else {
      unfinished_ += c;
      if (unfinished_.size() >= kLongest) end_line();
    }
  }
}

void OutputForwarder::end_line() {
  if (!drawn_) console_->line(fmt::format("[{}] {}", rank_, unfinished_));
  if (tail_.size() == kKept) tail_.pop_front();
  tail_.push_back(std::move(unfinished_));
  last_ = console_->lines();
  unfinished_.clear();
}

void OutputForwarder::finish() {
  if (!unfinished_.empty()) end_line();
}

}  // namespace starling::dist
