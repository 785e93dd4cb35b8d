#include "starling/dist/launch/relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace starling::dist {

void Console::line(std::string_view text) {
  if (drawn_) write("\r\033[K");
  drawn_ = false;
  write(fmt::format("{}\n", text));
}

void Console::draw(std::string_view bytes) {
  if (bytes.empty()) return;
  drawn_ = bytes.back() != '\n';
  write(bytes);
}

// Drops output that cannot be written: a vanished reader must not end the run.
void Console::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd one{fd_, POLLOUT, 0};
      ::poll(&one, 1, 100);
    } else if (errno != EINTR) {
      return;
    }
  }
}

bool Relay::read(const UniqueFd& from) {
  char bytes[16384];
  for (;;) {
    const ssize_t got = ::read(from.get(), bytes, sizeof bytes);
    if (got > 0) {
      take({bytes, static_cast<std::size_t>(got)});
    } else if (got < 0 && errno == EAGAIN) {
      return true;
    } else if (got == 0 || errno != EINTR) {
      return false;  // a closed pseudo-terminal reports EIO
    }
  }
}

void Relay::take(std::string_view bytes) {
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

void Relay::end_line() {
  if (!drawn_) console_->line(fmt::format("[{}] {}", rank_, unfinished_));
  if (tail_.size() == kKept) tail_.pop_front();
  tail_.push_back(std::move(unfinished_));
  unfinished_.clear();
}

void Relay::finish() {
  if (!unfinished_.empty()) end_line();
}

}  // namespace starling::dist
