#include "starling/dist/launch/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "starling/dist/launch/launcher/blocking_signals.h"

namespace starling::dist {
namespace {

// False if the deadline passed first.
bool wait_for(const UniqueFd& socket, short events, SocketTime deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd one{socket.get(), events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (ready > 0) return true;
    if (left <= 0) return false;
  }
}

UniqueFd open_socket(const SocketAddress& address) {
  UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (socket) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

Result<UniqueFd> connect_once(const SocketAddress& address, SocketTime deadline) {
  UniqueFd socket = open_socket(address);
  if (!socket) return failure("{}", errno_text());
  if (::connect(socket.get(), address.get(), address.size) == 0) return socket;
  if (errno != EINPROGRESS) return failure("{}", errno_text());
  if (!wait_for(socket, POLLOUT, deadline)) return failure("no answer");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  if (error != 0) return failure("{}", errno_text());
  return socket;
}

}  // namespace

std::string HostPort::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto wrong = [&] { return failure("expected an address host:port, got '{}'", text); };
  if (colon == std::string_view::npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();
  }
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc{} || end != digits.data() + digits.size()) return wrong();
  if (port < 0 || port > 65535) return failure("expected a port from 0 to 65535 in the address, got '{}'", text);
  return HostPort{std::string(host), port};
}

bool SocketAddress::loopback() const {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

int SocketAddress::port() const {
  return storage.ss_family == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port)
                                      : ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  const void* part = &reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  if (storage.ss_family == AF_INET6) part = &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  ::inet_ntop(storage.ss_family, part, text, sizeof text);
  return text;
}

namespace {

Result<std::vector<SocketAddress>> look_up(const HostPort& where, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &first);
  if (error != 0) return failure("host name '{}': {}", where.host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, ::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress& address = found.emplace_back();
    std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen,
                reinterpret_cast<char*>(&address.storage));
    address.size = entry->ai_addrlen;
  }
  if (found.empty()) return failure("host name '{}' has no address", where.host);
  return found;
}

// Outcome of a look-up that may outlast its caller.
struct LookUp {
  std::mutex mutex{};
  std::condition_variable ended{};
  std::optional<Result<std::vector<SocketAddress>>> found{};
};

}  // namespace

// Names are looked up on a thread of their own, since getaddrinfo knows no deadline; it is left behind if it is late.
Result<std::vector<SocketAddress>> resolve(const HostPort& where, SocketTime deadline) {
  if (auto numeric = look_up(where, AI_NUMERICHOST)) return numeric;
  const auto shared = std::make_shared<LookUp>();
  {
    const BlockingSignals blocking;
    std::thread([shared, where] {
      auto found = look_up(where, 0);
      const std::lock_guard lock(shared->mutex);
      shared->found = std::move(found);
      shared->ended.notify_all();
    }).detach();
  }
  std::unique_lock lock(shared->mutex);
  if (!shared->ended.wait_until(lock, deadline, [&] { return shared->found.has_value(); }))
    return failure("host name '{}': the name server has not answered in time", where.host);
  return std::move(*shared->found);
}

Result<UniqueFd> listen_on(const HostPort& where) {
  const auto found = resolve(where);
  if (!found) return found.failure();
  return listen_on(found->front());
}

Result<UniqueFd> listen_on(const SocketAddress& address) {
  UniqueFd socket = open_socket(address);
  if (!socket) return failure("{}", errno_text());
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), address.get(), address.size) != 0 || ::listen(socket.get(), 128) != 0)
    return failure("{}", errno_text());
  return socket;
}

SocketAddress local_address(const UniqueFd& socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (::getsockname(socket.get(), address.get(), &address.size) != 0)
    fail("[socket] expected a local address, got: {}", errno_text());
  return address;
}

bool is_from_another_host(const UniqueFd& socket) {
  SocketAddress own, peer;
  own.size = peer.size = sizeof own.storage;
  return ::getsockname(socket.get(), own.get(), &own.size) == 0 &&
         ::getpeername(socket.get(), peer.get(), &peer.size) == 0 && own.host() != peer.host();
}

Result<UniqueFd> connect_to(const HostPort& where, SocketTime deadline) {
  const auto found = resolve(where, deadline);
  if (!found) return found.failure();
  std::string last;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<std::int64_t>(found->size() - i);
    auto socket = connect_once((*found)[i], now + share);
    if (socket) return socket;
    last = socket.error();
  }
  return Failure{last};
}

Result<void> send_all(const UniqueFd& socket, std::string_view bytes, SocketTime deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline)) return failure("no progress in time");
    } else if (errno != EINTR) {
      return failure("{}", errno_text());
    }
  }
  return {};
}

Result<void> recv_exactly(const UniqueFd& socket, std::span<char> bytes, SocketTime deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return failure("the other side closed the connection");
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, deadline)) return failure("no answer in time");
    } else if (errno != EINTR) {
      return failure("{}", errno_text());
    }
  }
  return {};
}

}  // namespace starling::dist
