#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/result.h"

namespace starling::dist {

// TCP functions for the rendezvous: every wait has a deadline; failures are results, so that callers may retry.
using SocketTime = std::chrono::steady_clock::time_point;

// "host:port" or "[v6]:port".
struct HostPort {
  std::string host;
  int port = 0;

  std::string text() const;
};
Result<HostPort> parse_host_port(std::string_view text);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool loopback() const;
  int port() const;
  std::string host() const;  // numeric
};

// Addresses of a host. A name server that does not answer is given up at the deadline.
inline constexpr std::chrono::milliseconds kResolve{10'000};
Result<std::vector<SocketAddress>> resolve(const HostPort& where,
                                           SocketTime deadline = std::chrono::steady_clock::now() + kResolve);

// Listens on exactly that address, or on the first one of that host; port 0: any free port.
Result<UniqueFd> listen_on(const SocketAddress& address);
Result<UniqueFd> listen_on(const HostPort& where);
SocketAddress local_address(const UniqueFd& socket);
// True if the other end is on another host: a process of this host connects from the address that it connects to.
bool is_from_another_host(const UniqueFd& socket);

// Tries each address once. Each gets an equal share of the time left, so that one that does not answer leaves some to
// the others.
Result<UniqueFd> connect_to(const HostPort& where, SocketTime deadline);

Result<void> send_all(const UniqueFd& socket, std::string_view bytes, SocketTime deadline);
Result<void> recv_exactly(const UniqueFd& socket, std::span<char> bytes, SocketTime deadline);

}  // namespace starling::dist
