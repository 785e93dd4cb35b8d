#include "starling/dist/launch/store/tcp_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <random>
#include <thread>
#include <vector>

#include "dist/comm_worlds.h"
#include "starling/base/version.h"
#include "starling/dist/launch/store/frame.h"
#include "starling/dist/launch/store/handshake.h"
#include "starling/dist/launch/store/secret.h"
#include "starling/dist/launch/store/store_line.h"
#include "starling/dist/launch/store/store_server.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using testing::error_of;

const std::string kSecret = "a secret of more than sixteen characters";

StoreServerOptions served(int world = 2) { return {.secret = kSecret, .world = world}; }

TcpStoreOptions joining(const StoreServer& server, int rank, int world = 2) {
  return {.address = server.address(),
          .secret = kSecret,
          .rank = rank,
          .world = world,
          .join_deadline = milliseconds(120'000)};
}

TEST(TcpStore, ValuesTravelBetweenRanks) {
  const StoreServer server(served());
  TcpStore first(joining(server, 0)), second(joining(server, 1));
  const std::string large(Frame::kMostValue, 'x');
  first.set("address/0", "one");
  first.set("large", large);
  first.set("empty", "");
  EXPECT_EQ(second.get("address/0", milliseconds(0)), "one");
  EXPECT_EQ(second.get("large", milliseconds(0)), large);
  EXPECT_EQ(second.get("empty", milliseconds(0)), "");
  EXPECT_EQ(first.local_host(), "127.0.0.1");
  EXPECT_TRUE(server.missing().empty());
}

TEST(TcpStore, AGetWaitsForTheSetOfAnother) {
  const StoreServer server(served());
  TcpStore first(joining(server, 0)), second(joining(server, 1));
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(30));
    second.set("late", "value");
  });
  EXPECT_EQ(first.get("late", milliseconds(20'000)), "value");
  writer.join();
}

TEST(TcpStore, AThreadMayWaitForWhatAnotherOfItsRankWrites) {
  const StoreServer server(served(1));
  TcpStore store(joining(server, 0, 1));
  std::string got;
  std::thread reader([&] { got = store.get("key", milliseconds(20'000)); });
  std::this_thread::sleep_for(milliseconds(20));
  store.set("key", "value");
  reader.join();
  EXPECT_EQ(got, "value");
}

TEST(TcpStore, AValueThatNobodyWritesNamesTheAddressAndTheRanksThatAreMissing) {
  const StoreServer server(served(4));
  TcpStore store(joining(server, 1, 4));
  const std::string error = error_of([&] { (void)store.get("host/3", milliseconds(50)); });
  EXPECT_TRUE(contains(error, "'host/3'"));
  EXPECT_TRUE(contains(error, server.address()));
  EXPECT_TRUE(contains(error, "of 4 ranks 3 are missing: 0, 2, 3"));
  store.set("still", "here");
}

TEST(TcpStore, TheSameValueMayBeWrittenAgainAndAnotherMayNot) {
  const StoreServer server(served());
  TcpStore first(joining(server, 0)), second(joining(server, 1));
  first.set("key", "value");
  second.set("key", "value");
  EXPECT_TRUE(contains(error_of([&] { second.set("key", "other"); }), "'key' to be written once"));
  EXPECT_EQ(second.get("key", milliseconds(0)), "value");
}

TEST(TcpStore, AValueThatIsTooLargeIsRefusedBeforeItIsSent) {
  const StoreServer server(served(1));
  TcpStore store(joining(server, 0, 1));
  EXPECT_TRUE(contains(error_of([&] { store.set("key", std::string(Frame::kMostValue + 1, 'x')); }), "at most"));
  EXPECT_TRUE(contains(error_of([&] { store.set(std::string(Frame::kMostKey + 1, 'k'), "x"); }), "at most"));
  store.set("key", "value");
}

TEST(TcpStore, TheNewestNoteOfAKeyWinsAndNotesStayInOrder) {
  const StoreServer server(served());
  TcpStore first(joining(server, 0)), second(joining(server, 1));
  for (int step = 1; step <= 100; ++step) first.note("step/0", std::to_string(step));
  first.set("then", "");  // on the same connection, so all notes have arrived
  second.note("step/1", "7");
  second.set("then", "");
  ASSERT_TRUE(server.note("step/0") && server.note("step/1"));
  EXPECT_EQ(server.note("step/0")->value, "100");
  EXPECT_EQ(server.note("step/0")->order, 1);
  EXPECT_EQ(server.note("step/1")->order, 2);
  EXPECT_FALSE(server.note("step/2"));
}

// A launcher describes a rank that was killed right after its report: the report must not depend on who runs first.
TEST(StoreServer, HasReadWhatArrivedOnceItCaughtUp) {
  const StoreServer server(served(1));
  TcpStore rank(joining(server, 0, 1));
  for (int step = 0; step < 2000; ++step) {
    rank.note("step/0", std::to_string(step));
    ASSERT_TRUE(server.catch_up(milliseconds(20'000)));
    ASSERT_TRUE(server.note("step/0"));
    ASSERT_EQ(server.note("step/0")->value, std::to_string(step));
  }
}

TEST(TcpStore, ASynchronousNoteArrivesBeforeAnythingItCauses) {
  const StoreServer server(served());
  TcpStore first(joining(server, 0)), second(joining(server, 1));
  for (int round = 0; round < 200; ++round) {
    // The first rank's connection is the one the server looks at first.
    ASSERT_TRUE(second.note_now(fmt::format("cause/{}", round), "", milliseconds(20'000)));
    first.note(fmt::format("effect/{}", round), "");
    first.set("then", "");
    ASSERT_LT(server.note(fmt::format("cause/{}", round))->order, server.note(fmt::format("effect/{}", round))->order);
  }
}

TEST(TcpStore, ANoteThatWaitsGivesUpWhenNobodyIsThere) {
  auto server = std::make_unique<StoreServer>(served(1));
  TcpStore store(joining(*server, 0, 1));
  server.reset();
  EXPECT_FALSE(store.note_now("failed/0", "why", milliseconds(200)));
}

TEST(TcpStore, ARankMayComeBeforeTheRendezvousIsThere) {
  int port = 0;
  { port = parse_host_port(StoreServer(served(1)).address())->port; }
  std::unique_ptr<StoreServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(150));
    auto options = served(1);
    options.port = port;
    server = std::make_unique<StoreServer>(options);
  });
  TcpStore store(
      {.address = HostPort{"127.0.0.1", port}.text(), .secret = kSecret, .join_deadline = milliseconds(20'000)});
  late.join();
  store.set("key", "value");
}

TEST(TcpStore, ARendezvousThatNeverComesIsNamedAtTheDeadline) {
  std::string address;
  { address = StoreServer(served()).address(); }
  const auto began = CommClock::now();
  const std::string error = error_of([&] {
    TcpStore store({.address = address, .secret = kSecret, .rank = 1, .world = 2, .join_deadline = milliseconds(100)});
  });
  EXPECT_LT(seconds_since(began), kAtOnce);
  EXPECT_TRUE(contains(error, "rank 1 could not reach " + address + " within 0.1 s"));
  EXPECT_TRUE(contains(error, "refused"));
}

TEST(TcpStore, AHostNameThatDoesNotResolveIsNamed) {
  const std::string error = error_of([&] {
    TcpStore store({.address = "no-such-host.invalid:1", .secret = kSecret, .join_deadline = milliseconds(50)});
  });
  EXPECT_TRUE(contains(error, "no-such-host.invalid"));
}

TEST(TcpStore, ALostRendezvousIsAnErrorThatNamesIt) {
  auto server = std::make_unique<StoreServer>(served(1));
  TcpStore store(joining(*server, 0, 1));
  const std::string address = server->address();
  server.reset();
  EXPECT_TRUE(contains(error_of([&] { store.set("key", "value"); }), "lost " + address));
}

// Differences are named at once, not at the deadline, on every rank.
struct Other {
  std::string name;
  std::function<void(TcpStoreOptions&)> change;
  std::string says;
};
class TcpStoreRefuses : public ::testing::TestWithParam<Other> {};

TEST_P(TcpStoreRefuses, AMismatchedRankAndSaysWhatDiffers) {
  const StoreServer server(served());
  TcpStoreOptions options = joining(server, 1);
  GetParam().change(options);
  const auto began = CommClock::now();
  const std::string error = error_of([&] { TcpStore store(options); });
  EXPECT_LT(seconds_since(began), kAtOnce);
  EXPECT_TRUE(contains(error, server.address()));
  EXPECT_TRUE(contains(error, GetParam().says));
  EXPECT_EQ(error.find(kSecret), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Who, TcpStoreRefuses,
    ::testing::Values(Other{"another_secret", [](auto& o) { o.secret = "another secret of that length"; }, "secret"},
                      Other{"no_secret", [](auto& o) { o.secret = ""; }, "secret"},
                      Other{"another_start", [](auto& o) { o.epoch = 3; }, "start 3 of the job here, start 0 there"},
                      Other{"another_world", [](auto& o) { o.world = 5; }, "5 ranks here, 2 there"},
                      Other{"a_rank_too_many", [](auto& o) { o.rank = 2; }, "a rank from 0 to 1, got 2"}),
    [](const auto& info) { return info.param.name; });

TEST(TcpStore, ASecondProcessWithTheSameRankIsRefused) {
  const StoreServer server(served());
  TcpStore first(joining(server, 1));
  EXPECT_TRUE(
      contains(error_of([&] { TcpStore second(joining(server, 1)); }), "another process has joined as rank 1 already"));
  first.set("key", "value");
}

TEST(Memberships, OfMixedVersionsNameBoth) {
  EXPECT_EQ(difference({"0.2.0", 0, 2}, {"0.1.0", 0, 2}), "starling 0.2.0 here, 0.1.0 there");
  EXPECT_EQ(difference({"0.1.0", 0, 2, 2}, {"0.1.0", 0, 2, 1}), "rendezvous protocol 2 here, 1 there");
  EXPECT_EQ(difference({"0.1.0", 1, 2}, {"0.1.0", 1, 2}), "");
}

// A hand-made rank of another version, up to its refusal; the next rank to wait in vain is told of it.
TEST(TcpStore, ARankOfAnotherVersionIsAnsweredWithTheServersAndRemembered) {
  const StoreServer server(served());
  const auto deadline = CommClock::now() + milliseconds(20'000);
  const auto socket = connect_to(*parse_host_port(server.address()), deadline);
  ASSERT_TRUE(socket.ok());
  const HelloBytes hello = encode(Hello{.membership = {"9.9.9", 0, 2}, .rank = 1});
  ASSERT_TRUE(send_all(*socket, {hello.data(), hello.size()}, deadline).ok());
  AnswerBytes bytes{};
  ASSERT_TRUE(recv_exactly(*socket, bytes, deadline).ok());
  const auto answer = decode_answer(bytes);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->membership.version, kVersion);
  char more = 0;
  EXPECT_FALSE(recv_exactly(*socket, {&more, 1}, deadline).ok());  // closed
  TcpStore store(joining(server, 0));
  EXPECT_TRUE(contains(error_of([&] { (void)store.get("key", milliseconds(1)); }),
                       std::string("starling ") + kVersion + " here, 9.9.9 there"));
}

// A proof is invalid in another connection, and so is the server's own proof mirrored back.
TEST(TcpStore, ProofsCannotBePlayedBackOrMirrored) {
  const StoreServer server(served());
  const auto deadline = CommClock::now() + milliseconds(20'000);
  const HelloBytes hello = encode(Hello{.membership = {kVersion, 0, 2}, .rank = 1});
  std::string old_proof;
  for (int round = 0; round < 3; ++round) {
    const auto socket = connect_to(*parse_host_port(server.address()), deadline);
    ASSERT_TRUE(send_all(*socket, {hello.data(), hello.size()}, deadline).ok());
    AnswerBytes answer{};
    ASSERT_TRUE(recv_exactly(*socket, answer, deadline).ok());
    const Handshake handshake(hello, answer, kSecret);
    std::string proof(bytes_of(handshake.client_proof()));
    if (round == 1) proof = old_proof;
    if (round == 2) proof.assign(answer.data() + Answer::kProofAt, 32);
    ASSERT_TRUE(send_all(*socket, proof, deadline).ok());
    char welcome[4];
    EXPECT_EQ(recv_exactly(*socket, welcome, deadline).ok(), round == 0) << round;
    old_proof = proof;
  }
}

TEST(StoreServers, BeyondLoopbackNeedASecret) {
  EXPECT_TRUE(
      contains(error_of([] { StoreServer server({.host = "0.0.0.0"}); }), "expected a secret (STARLING_SECRET"));
  const StoreServer server({.host = "0.0.0.0", .secret = kSecret});
  EXPECT_FALSE(server.address().ends_with(":0"));
}

TEST(StoreServers, NameAnAddressThatIsTaken) {
  const StoreServer server(served());
  auto options = served();
  options.port = parse_host_port(server.address())->port;
  EXPECT_TRUE(contains(error_of([&] { StoreServer second(options); }), "cannot listen on " + server.address()));
}

TEST(StoreServers, CloseAConnectionThatSaysNothing) {
  auto options = served();
  options.handshake_deadline = milliseconds(50);
  const StoreServer server(options);
  const auto deadline = CommClock::now() + milliseconds(20'000);
  const auto socket = connect_to(*parse_host_port(server.address()), deadline);
  char byte = 0;
  EXPECT_FALSE(recv_exactly(*socket, {&byte, 1}, deadline).ok());
  EXPECT_LT(CommClock::now(), deadline);
}

// Hostile input: random bytes, a valid hello followed by random bytes, frames with flipped bits, false lengths. Each
// connection ends, and a proper rank is served meanwhile.
class Hostile : public ::testing::Test {
 protected:
  UniqueFd connect() {
    auto socket = connect_to(*parse_host_port(server_.address()), deadline());
    EXPECT_TRUE(socket.ok()) << socket.error();
    return std::move(*socket);
  }
  static SocketTime deadline() { return CommClock::now() + milliseconds(120'000); }
  std::string random(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  // Expects the server to close the connection, or at least to send nothing wrong.
  void ends(const UniqueFd& socket) {
    ::shutdown(socket.get(), SHUT_WR);
    char bytes[4096];
    std::size_t got = 0;
    while (got < (4U << 20)) {
      if (!recv_exactly(socket, {bytes, 1}, deadline()).ok()) return;
      ++got;
    }
    ADD_FAILURE() << "it goes on answering";
  }
  void still_serves() {
    const std::string key = "alive/" + std::to_string(served_++);
    rank_.set(key, "yes");
    EXPECT_EQ(rank_.get(key, milliseconds(5'000)), "yes");
  }
  // An authenticated connection and its key.
  std::pair<UniqueFd, Seal> let_in() {
    UniqueFd socket = connect();
    const HelloBytes hello = encode(Hello{.membership = {kVersion, 0, 2}, .rank = 1, .process = 7});
    EXPECT_TRUE(send_all(socket, {hello.data(), hello.size()}, deadline()).ok());
    AnswerBytes answer{};
    EXPECT_TRUE(recv_exactly(socket, answer, deadline()).ok());
    const Handshake handshake(hello, answer, kSecret);
    EXPECT_TRUE(send_all(socket, bytes_of(handshake.client_proof()), deadline()).ok());
    StoreLine line(std::move(socket));
    line.received = Seal(handshake.key(), 's');
    const auto welcome = line.answer(deadline());
    EXPECT_TRUE(welcome.ok());
    EXPECT_TRUE(contains(welcome->key, "pid ")) << "where the rendezvous runs";
    return {std::move(line.socket), Seal(handshake.key(), 'r')};
  }

  std::mt19937 random_{12};
  int served_ = 0;
  StoreServer server_{served()};
  TcpStore rank_{joining(server_, 0)};
};

TEST_F(Hostile, RandomBytesBeforeTheHandshakeEndTheConnection) {
  for (int i = 0; i < 100; ++i) {
    const UniqueFd socket = connect();
    (void)send_all(socket, random(random_() % 400), deadline());
    ends(socket);
  }
  still_serves();
}

TEST_F(Hostile, RandomBytesAfterARightHelloEndTheConnection) {
  for (int i = 0; i < 100; ++i) {
    const UniqueFd socket = connect();
    const HelloBytes hello =
        encode(Hello{.membership = {kVersion, 0, 2}, .rank = static_cast<std::uint32_t>(random_())});
    ASSERT_TRUE(send_all(socket, {hello.data(), hello.size()}, deadline()).ok());
    (void)send_all(socket, random(random_() % 200), deadline());
    ends(socket);
  }
  still_serves();
}

TEST_F(Hostile, RandomBytesFromAMemberEndTheConnection) {
  for (int i = 0; i < 60; ++i) {
    const auto [socket, seal] = let_in();
    (void)send_all(socket, random(random_() % 3000), deadline());
    ends(socket);
  }
  still_serves();
}

TEST_F(Hostile, AFrameWithATurnedBitEndsTheConnectionAndSetsNothing) {
  for (int i = 0; i < 60; ++i) {
    auto [socket, seal] = let_in();
    std::string frame = seal.close({.kind = Frame::Kind::set, .key = "forged", .value = "value"});
    frame[random_() % frame.size()] ^= static_cast<char>(1 << (random_() % 8));
    (void)send_all(socket, frame, deadline());
    ends(socket);
  }
  EXPECT_FALSE(error_of([&] { (void)rank_.get("forged", milliseconds(1)); }).empty());
  still_serves();
}

TEST_F(Hostile, AFrameThatIsPlayedTwiceCountsOnce) {
  auto [socket, seal] = let_in();
  const std::string frame = seal.close({.kind = Frame::Kind::note, .key = "step/1", .value = "5"});
  ASSERT_TRUE(send_all(socket, frame + frame, deadline()).ok());
  ends(socket);
  EXPECT_EQ(server_.note("step/1")->value, "5");
  still_serves();
}

TEST_F(Hostile, LyingLengthsAreRefusedWithoutWaitingForTheRest) {
  for (const std::uint32_t size :
       {0U, 1U, 26U, static_cast<std::uint32_t>(Frame::kMost) + 1, 0x7fffffffU, 0xffffffffU}) {
    auto [socket, seal] = let_in();
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(size >> (8 * i));
    ASSERT_TRUE(send_all(socket, bytes, deadline()).ok());
    char byte = 0;
    const auto began = CommClock::now();
    EXPECT_FALSE(recv_exactly(socket, {&byte, 1}, deadline()).ok()) << size;
    EXPECT_LT(seconds_since(began), kAtOnce);
  }
  still_serves();
}

// Many silent connections at once: a rank still gets in, since the oldest strangers are dropped first.
TEST_F(Hostile, ManyIdleStrangersKeepNobodyOut) {
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 150; ++i) strangers.push_back(connect());
  TcpStore second(joining(server_, 1));
  second.set("in", "yes");
  still_serves();
}

class Secrets : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& text, mode_t mode) {
    const auto path = folder_ / "secret";
    testing::write_text(path, text);
    ::chmod(path.c_str(), mode);
    return path;
  }
  static Variables none() {
    return [](const std::string&) { return std::optional<std::string>(); };
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Secrets, ComeFromTheEnvironmentOrFromAFile) {
  const Variables variables = [](const std::string& name) {
    return name == "STARLING_SECRET" ? std::optional<std::string>("0123456789abcdef") : std::nullopt;
  };
  EXPECT_EQ(read_secret({}, variables), "0123456789abcdef");
  EXPECT_EQ(read_secret({}, none()), "");
  const auto path = file(kSecret + "\n", 0600);
  EXPECT_EQ(read_secret(path, variables), kSecret);
  EXPECT_EQ(read_secret({},
                        [&](const std::string& name) {
                          return name == "STARLING_SECRET_FILE" ? std::optional(path.string()) : std::nullopt;
                        }),
            kSecret);
}

TEST_F(Secrets, ThatOthersCanReadOrGuessAreRefusedWithoutPrintingThem) {
  EXPECT_TRUE(contains(error_of([&] { read_secret(file(kSecret, 0644), none()); }), "chmod 600"));
  const std::string error = error_of([&] { read_secret(file("hunter2", 0600), none()); });
  EXPECT_TRUE(contains(error, "at least 16 characters"));
  EXPECT_EQ(error.find("hunter2"), std::string::npos);
  EXPECT_TRUE(contains(error_of([&] { read_secret(folder_ / "absent", none()); }), "absent"));
}

TEST_F(Secrets, AreFreshEachTime) {
  EXPECT_EQ(make_secret().size(), 64);
  EXPECT_NE(make_secret(), make_secret());
}

}  // namespace
}  // namespace starling::dist
