#include "starling/dist/launch/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace starling::dist {
namespace {

// A connection to 127.0.0.1 that comes from this address, and the end of it that was accepted.
UniqueFd accepted_from(const char* from, UniqueFd& other) {
  const auto listener = listen_on(HostPort{"127.0.0.1", 0});
  other = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  ::inet_pton(AF_INET, from, &own.sin_addr);
  EXPECT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  const SocketAddress to = local_address(*listener);
  EXPECT_EQ(::connect(other.get(), to.get(), to.size), 0);
  return UniqueFd(::accept(listener->get(), nullptr, nullptr));
}

TEST(Sockets, KnowWhetherTheirOtherEndIsOnAnotherHost) {
  UniqueFd other;
  const UniqueFd here = accepted_from("127.0.0.1", other);
  EXPECT_FALSE(is_from_another_host(here));
  const UniqueFd there = accepted_from("127.0.0.2", other);
  EXPECT_TRUE(is_from_another_host(there));
  EXPECT_FALSE(is_from_another_host(UniqueFd()));
}

}  // namespace
}  // namespace starling::dist
