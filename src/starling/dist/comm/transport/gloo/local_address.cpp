#include "starling/dist/comm/transport/gloo/local_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "starling/base/error.h"
#include "starling/dist/launch/socket.h"

namespace starling::dist::wire {
namespace {

std::string digits(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = {};
  const int code = getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  check(code == 0, "[gloo] an address cannot be written: {}", gai_strerror(code));
  return host;
}

socklen_t length_of(int family) { return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }

std::string of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail("[gloo] the network interfaces cannot be listed: {}", ::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::string known;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      if (name == one->ifa_name) return digits(one->ifa_addr, length_of(family));
      if (family == AF_INET) known += (known.empty() ? "" : ", ") + std::string(one->ifa_name);
    }
  }
  fail("[gloo] expected a network interface of this host that has an address ({}), got '{}'", known, name);
}

// Returns 0, or the errno why the address cannot be bound.
int try_to_bind(const SocketAddress& where) {
  const UniqueFd fd(::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), where.get(), where.size) == 0 ? 0 : errno;
}

std::string of_name(const std::string& name, SocketTime deadline) {
  const auto found = resolve({name, 0}, deadline);
  if (!found) fail("[gloo] expected an address of this host, got '{}': {}", name, found.error());
  int error = 0;
  for (const SocketAddress& one : *found) {
    error = try_to_bind(one);
    if (error == 0) return one.host();
  }
  fail("[gloo] expected an address of this host, got '{}': {}", name, ::strerror(error));
}

}  // namespace

std::string local_address(const GlooOptions& options) {
  return options.interface.empty() ? of_name(options.address, std::chrono::steady_clock::now() + options.join)
                                   : of_interface(options.interface);
}

}  // namespace starling::dist::wire
