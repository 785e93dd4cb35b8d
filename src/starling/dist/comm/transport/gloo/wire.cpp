#include "starling/dist/comm/transport/gloo/wire.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "starling/base/error.h"
#include "starling/dist/launch/store/secret.h"

// Gloo of 2023 and later hands sockets over as objects; pairs of earlier ones listen themselves.
#if __has_include(<gloo/transport/tcp/socket.h>)
#include <gloo/transport/tcp/error.h>
#include <gloo/transport/tcp/socket.h>
#define STARLING_GLOO_SOCKETS 1
#else
#define STARLING_GLOO_SOCKETS 0
#endif

namespace starling::dist::wire {
namespace {

// Suppresses SIGPIPE, which a write to a closed connection raises and which would end the process; Gloo leaves that to
// its callers.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }

  ~NoPipeSignal() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

void set_option(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof(value)); }

}  // namespace

Pair::Pair(tcp::Context* context, tcp::Device* device, int peer, std::chrono::milliseconds timeout,
           std::shared_ptr<Notifier> notifier)
    : tcp::Pair(context, device, peer, timeout), notifier_(std::move(notifier)) {
  stop_listening();
}

#if STARLING_GLOO_SOCKETS
void Pair::stop_listening() {}  // the device listens, for pairs that connect by their addresses

void Pair::adopt(int fd) {
  adopted_.store(true, std::memory_order_release);
  connectCallback(std::make_shared<tcp::Socket>(fd), tcp::Error());
}
#else
// The base class listens; whatever has come to it by now is none of ours. The kernel forgets a closed descriptor.
void Pair::stop_listening() {
  std::scoped_lock lock(m_);
  taken_ = state_ != LISTENING;
  if (taken_) return;
  ::close(fd_);
  fd_ = -1;
  state_ = INITIALIZING;
}

void Pair::adopt(int fd) {
  std::scoped_lock lock(m_);
  fd_ = fd;
  adopted_.store(true, std::memory_order_release);
  handleConnected();
}
#endif

Pair::~Pair() {
  {
    std::scoped_lock lock(m_);
    if (state_ == INITIALIZING) state_ = CLOSED;  // there is no connection to close
    if (state_ != CLOSED) Pair::changeState(CLOSED);
  }
  std::scoped_lock lock(handling_);  // waits until Gloo's thread has left handleEvents
}

void Pair::watch_silence() {
  constexpr int kSeconds = 2, kProbes = 3;
  std::scoped_lock lock(m_);
  if (state_ != CONNECTED) return;
  set_option(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd_, IPPROTO_TCP, TCP_KEEPIDLE, kSeconds);
  set_option(fd_, IPPROTO_TCP, TCP_KEEPINTVL, kSeconds);
  set_option(fd_, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

void Pair::handleEvents(int events) {
  std::scoped_lock lock(handling_);
  if (!adopted_.load(std::memory_order_acquire)) return;  // of the listener that is gone
  try {
    tcp::Pair::handleEvents(events);
  } catch (const std::exception& error) {
    signalExceptionExternal(error.what());
  }
  notifier_->notify();
}

bool Pair::write(tcp::Op& op) {
  const NoPipeSignal quiet;
  return tcp::Pair::write(op);
}

void Pair::changeState(state next) noexcept {
  tcp::Pair::changeState(next);
  // Child processes must not inherit the connection: its closing tells others that this rank is lost.
  if (next == CONNECTED) fcntl(fd_, F_SETFD, FD_CLOEXEC);
  if (next != CLOSED) return;
  closed_.store(true, std::memory_order_release);
  notifier_->notify();
}

Context::Context(std::shared_ptr<tcp::Device> device, int rank, int size, std::shared_ptr<Notifier> notifier)
    : tcp::Context(std::move(device), rank, size), notifier_(std::move(notifier)) {}

Context::~Context() { release(); }

std::unique_ptr<::gloo::transport::Pair>& Context::createPair(int peer) {
  auto& place = pairs_[static_cast<std::size_t>(peer)];
  bool taken = true;
  for (int tries = 0; taken && tries < 10; ++tries) {
    auto made = std::make_unique<Pair>(this, device_.get(), peer, getTimeout(), notifier_);
    taken = made->taken();
    place = std::move(made);
  }
  if (taken) fail("[gloo] expected a fresh connection to rank {}, got ones that strangers had taken", peer);
  return place;
}

void Context::close() {
  for (auto& pair : pairs_) {
    if (pair) pair->close();
  }
}

bool Buffer::sent() {
  std::scoped_lock lock(m_);
  if (sendCompletions_ > 0) return true;
  throwIfException();
  return false;
}

bool Buffer::received() {
  std::scoped_lock lock(m_);
  if (recvCompletions_ > 0) return true;
  throwIfException();
  return false;
}

// Gloo listens for every pair for a moment, until the pair is made (Pair::Pair). It does so at a random address of the
// loopback network, where nobody looks for it: strangers must never reach Gloo's own handshake.
std::shared_ptr<tcp::Device> make_device() {
  const std::string bytes = random_bytes(3);
  const auto part = [&](std::size_t i) { return 1 + static_cast<unsigned char>(bytes[i]) % 253; };
  std::string why;
  for (const std::string& address :
       {fmt::format("127.{}.{}.{}", part(0), part(1), part(2)), std::string("127.0.0.1"), std::string("::1")}) {
    tcp::attr where;
    where.hostname = address;
    try {
      return std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(where));
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  fail("[gloo] expected a loopback address, got none: {}", why);
}

}  // namespace starling::dist::wire
