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
int try_to_bind(const addrinfo& where) {
  const int fd = ::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol);
  if (fd < 0) return errno;
  const int error = ::bind(fd, where.ai_addr, where.ai_addrlen) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

std::string of_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  check(code == 0, "[gloo] expected an address of this host, got '{}': {}", name, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    error = try_to_bind(*one);
    if (error == 0) return digits(one->ai_addr, one->ai_addrlen);
  }
  fail("[gloo] expected an address of this host, got '{}': {}", name, ::strerror(error));
}

}  // namespace

std::string local_address(const GlooOptions& options) {
  return options.interface.empty() ? of_name(options.address) : of_interface(options.interface);
}

}  // namespace starling::dist::wire
