#include "starling/dist/ps/wire.h"

#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"

namespace starling::dist::ps {
namespace {

constexpr std::size_t kRoom = 1 << 20;
const std::string kSecret = "a secret that is long enough";

struct Ends {
  std::shared_ptr<Wire> wire, other;
  std::unique_ptr<Socket> listener, line;
};

Ends ends_over(const std::string& address, std::size_t most = kRoom, const std::string& there = kSecret) {
  Ends ends;
  ends.wire = make_wire({.secret = kSecret});
  ends.other = address.starts_with("inproc") ? ends.wire : make_wire({.secret = there});
  ends.listener = ends.wire->listen(address, most);
  ends.line = ends.other->connect(ends.listener->address(), kRoom);
  return ends;
}

std::optional<Message> next(Wire& wire, Socket& socket, std::string* peer, milliseconds time = milliseconds(5000)) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    if (auto message = socket.receive(peer)) return message;
    Socket* sockets[] = {&socket};
    wire.wait(sockets, milliseconds(20));
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

std::vector<std::string> addresses(const SocketFolder& folder) {
  return {"inproc://wire-test", "ipc://" + folder.file("wire"), "tcp://127.0.0.1:*", "tcp://0.0.0.0:*"};
}

TEST(PsWire, CarriesAMessageAndItsAnswerOverEveryAddress) {
  const SocketFolder folder;
  for (const auto& address : addresses(folder)) {
    SCOPED_TRACE(address);
    Ends ends = ends_over(address);
    const Tensor values = values_like({DType::f32, {1000}}, 3);
    ends.line->send({{.verb = Verb::push, .worker = 3, .key = 5, .number = 7, .clock = 9, .weight = 2.5, .lr = 0.125},
                     {share(values), bytes_of_text("more")}});
    std::string peer;
    const auto message = next(*ends.wire, *ends.listener, &peer);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->header.verb, Verb::push);
    EXPECT_EQ(message->header.worker, 3U);
    EXPECT_EQ(message->header.key, 5U);
    EXPECT_EQ(message->header.number, 7U);
    EXPECT_EQ(message->header.clock, 9);
    EXPECT_EQ(message->header.weight, 2.5);
    EXPECT_EQ(message->header.lr, 0.125);
    ASSERT_EQ(message->parts.size(), 2U);
    EXPECT_EQ(text_of(message->parts[1]), "more");
    EXPECT_EQ(std::memcmp(message->parts[0].data, values.raw(), 4000), 0);
    ends.listener->send({{.verb = Verb::done, .number = 7}, {}}, peer);
    const auto answer = next(*ends.other, *ends.line, nullptr);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->header.number, 7U);
  }
}

// Inside a process the pointer travels; between processes it cannot, which shows that the test sees copies.
TEST(PsWire, CopiesNoBytesInsideAProcess) {
  const SocketFolder folder;
  const Tensor values = values_like({DType::f32, {100000}}, 3);
  for (const auto& address : {std::string("inproc://no-copy"), "ipc://" + folder.file("copy")}) {
    Ends ends = ends_over(address);
    ends.line->send({{.verb = Verb::push}, {share(values)}});
    const auto message = next(*ends.wire, *ends.listener, nullptr);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->parts[0].data == static_cast<const std::byte*>(values.raw()), address.starts_with("inproc"));
    EXPECT_EQ(message->parts[0].borrowed, address.starts_with("inproc"));
  }
}

TEST(PsWire, KeepsMemoryAliveUntilItHasArrived) {
  Ends ends = ends_over("inproc://alive");
  std::weak_ptr<const void> watched;
  {
    const auto owner = std::make_shared<const std::vector<std::byte>>(5000, std::byte{7});
    watched = owner;
    ends.line->send({{.verb = Verb::push}, {{owner, owner->data(), owner->size()}}});
  }
  {
    const auto message = next(*ends.wire, *ends.listener, nullptr);
    ASSERT_TRUE(message.has_value());
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(message->parts[0].data[4999], std::byte{7});
  }
  EXPECT_TRUE(watched.expired());
}

TEST(PsWire, CutsOffWhoAnnouncesMoreThanFits) {
  const SocketFolder folder;
  for (const std::string& address : {"ipc://" + folder.file("large"), std::string("tcp://127.0.0.1:*")}) {
    Ends ends = ends_over(address, 1000);
    const Tensor large = values_like({DType::f32, {100000}}, 1);
    ends.line->send({{.verb = Verb::push}, {share(large)}});
    EXPECT_FALSE(next(*ends.wire, *ends.listener, nullptr, milliseconds(200)).has_value());
    const auto other = ends.other->connect(ends.listener->address(), kRoom);  // others are served on
    other->send({{.verb = Verb::ping, .number = 4}, {}});
    const auto message = next(*ends.wire, *ends.listener, nullptr);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->header.number, 4U);
  }
}

TEST(PsWire, HearsNobodyBeyondThisHostWhoDoesNotKnowTheSecret) {
  Ends ends = ends_over("tcp://0.0.0.0:*", kRoom, "another secret of this length");
  ends.line->send({{.verb = Verb::ping}, {}});
  EXPECT_FALSE(next(*ends.wire, *ends.listener, nullptr, milliseconds(300)).has_value());
  const auto known = make_wire({.secret = kSecret});  // the control
  const auto line = known->connect(ends.listener->address(), kRoom);
  line->send({{.verb = Verb::ping}, {}});
  EXPECT_TRUE(next(*ends.wire, *ends.listener, nullptr).has_value());
}

TEST(PsWire, RefusesAddressesItCannotServe) {
  const auto wire = make_wire();
  EXPECT_THROW(wire->listen("tcp://0.0.0.0:*", kRoom), Error);  // no secret
  EXPECT_THROW(wire->connect("tcp://192.0.2.1:5000", kRoom), Error);
  EXPECT_THROW(wire->listen("udp://127.0.0.1:1", kRoom), Error);
  const auto taken = wire->listen("tcp://127.0.0.1:*", kRoom);
  EXPECT_THROW(wire->listen(taken->address(), kRoom), Error);
}

TEST(PsWire, TellsThatAConnectionIsLost) {
  const SocketFolder folder;
  Ends ends = ends_over("ipc://" + folder.file("lost"));
  ends.line->send({{.verb = Verb::ping}, {}});
  ASSERT_TRUE(next(*ends.wire, *ends.listener, nullptr).has_value());
  EXPECT_FALSE(ends.line->lost());
  ends.listener.reset();
  Socket* sockets[] = {ends.line.get()};
  EXPECT_TRUE(ends.other->wait(sockets, milliseconds(5000)));
  EXPECT_TRUE(ends.line->lost());
}

TEST(PsMessage, RefusesHeadersOfAnotherKind) {
  HeaderBytes bytes = encode({.verb = Verb::pull, .number = 5});
  EXPECT_EQ(decode_header(bytes).value().number, 5U);
  EXPECT_FALSE(decode_header(std::span(bytes).first(63)).ok());
  bytes[4] = std::byte{200};
  EXPECT_FALSE(decode_header(bytes).ok());
  bytes = encode({});
  bytes[0] = std::byte{0};
  EXPECT_FALSE(decode_header(bytes).ok());
}

}  // namespace
}  // namespace starling::dist::ps
