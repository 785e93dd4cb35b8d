#include "starling/dist/comm/transport/gloo/wire.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#include "starling/base/error.h"

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
    : tcp::Pair(context, device, peer, timeout), notifier_(std::move(notifier)) {}

Pair::~Pair() {
  {
    std::scoped_lock lock(m_);
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
  place = std::make_unique<Pair>(this, device_.get(), peer, getTimeout(), notifier_);
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

std::shared_ptr<tcp::Device> make_device(const std::string& address) {
  tcp::attr where;
  where.hostname = address;
  try {
    return std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(where));
  } catch (const std::exception& error) {
    fail("[gloo] expected to listen at {}: {}", address, error.what());
  }
}

}  // namespace starling::dist::wire
