#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm_worlds.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/tcp_store.h"
#include "testing/temporary_folder.h"

namespace {

const std::string kSilent = "silent.invalid";  // the name server does not answer for it

// Look-ups of kSilent wait here until the test lets them end.
class SilentServer {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --waiting_;
    changed_.notify_all();
  }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  // Lets all look-ups end and waits until they have.
  void open() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return waiting_ == 0; });
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  bool open_ = false;
  int waiting_ = 0;
};
SilentServer silent;

const std::string kMany = "many.invalid";  // stands for 127.0.0.1 with each of these ports
std::vector<int> ports_of_many;

const std::string kOwn = "own.invalid";  // stands for every interface of this host
std::atomic<bool> is_own = false;        // this host has that name
std::atomic<int> asked_for_own = 0;

using GetAddrInfo = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

int find_many(GetAddrInfo real, const addrinfo* hints, addrinfo** found) {
  for (const int port : ports_of_many) {
    if (const int error = real("127.0.0.1", std::to_string(port).c_str(), hints, found); error != 0) return error;
    found = &(*found)->ai_next;
  }
  return 0;
}

}  // namespace

// Overrides the C library's.
extern "C" int gethostname(char* name, size_t size) noexcept {
  static const auto real = reinterpret_cast<int (*)(char*, size_t)>(::dlsym(RTLD_NEXT, "gethostname"));
  if (!is_own) return real(name, size);
  std::snprintf(name, size, "%s", kOwn.c_str());
  return 0;
}

// Overrides the C library's, also for the code that is tested.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<GetAddrInfo>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || (hints->ai_flags & AI_NUMERICHOST) != 0) return real(name, service, hints, found);
  if (kSilent == name) {
    silent.wait();
    return EAI_AGAIN;
  }
  if (kMany == name) return find_many(real, hints, found);
  if (kOwn != name) return real(name, service, hints, found);
  ++asked_for_own;
  return real("0.0.0.0", service, hints, found);
}

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using testing::error_of;

class ANameServerThatHangs : public ::testing::Test {
 protected:
  ANameServerThatHangs() { silent.close(); }
  ~ANameServerThatHangs() override { silent.open(); }
};

constexpr double kSlack = 5;  // seconds that a loaded machine may add; the look-up would wait for ever

TEST_F(ANameServerThatHangs, IsGivenUpAtTheDeadline) {
  const auto began = CommClock::now();
  const auto found = resolve({kSilent, 80}, CommClock::now() + milliseconds(100));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), "host name 'silent.invalid': the name server has not answered in time");
  EXPECT_LT(seconds_since(began), 0.1 + kSlack);
  EXPECT_EQ(silent.waiting(), 1) << "the look-up itself is still under way";
}

TEST_F(ANameServerThatHangs, DoesNotHoldUpAConnection) {
  const auto began = CommClock::now();
  const auto socket = connect_to({kSilent, 80}, CommClock::now() + milliseconds(100));
  ASSERT_FALSE(socket);
  EXPECT_NE(socket.error().find("has not answered in time"), std::string::npos) << socket.error();
  EXPECT_LT(seconds_since(began), 0.1 + kSlack);
}

TEST_F(ANameServerThatHangs, EndsAJoinWithTheNameAndTheCause) {
  const auto began = CommClock::now();
  const std::string error = error_of([&] {
    TcpStore({.address = kSilent + ":29500",
              .secret = "a secret of more than sixteen characters",
              .rank = 1,
              .world = 2,
              .join_deadline = milliseconds(300)});
  });
  EXPECT_NE(error.find(kSilent), std::string::npos) << error;
  EXPECT_NE(error.find("has not answered in time"), std::string::npos) << error;
  EXPECT_LT(seconds_since(began), 0.3 + kSlack);
}

TEST_F(ANameServerThatHangs, IsNotAskedAboutNumbers) {
  const auto found = resolve({"127.0.0.1", 80}, CommClock::now() + milliseconds(100));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().host(), "127.0.0.1");
  EXPECT_EQ(silent.waiting(), 0);
}

// Listens at a port and answers nobody: its queue is full, so that further connections are neither taken nor refused.
class SilentPort {
 public:
  SilentPort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    const SocketAddress own = local_address(listener_);
    for (int i = 0; i < 8; ++i) {
      waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      static_cast<void>(::connect(waiting_.back().get(), own.get(), own.size));
    }
  }
  int port() const { return local_address(listener_).port(); }

 private:
  UniqueFd listener_;
  std::vector<UniqueFd> waiting_;
};

constexpr std::size_t kAddresses = 8;

TEST(ANameOfManyAddresses, HasOneDeadlineForAllOfThem) {
  const std::vector<SilentPort> silent_ports(kAddresses);
  for (const auto& one : silent_ports) ports_of_many.push_back(one.port());
  const auto began = CommClock::now();
  const auto socket = connect_to({kMany, 1}, CommClock::now() + milliseconds(1000));
  ports_of_many.clear();
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error(), "no answer");
  EXPECT_GT(seconds_since(began), 0.9);
  EXPECT_LT(seconds_since(began), 1 + kSlack) << "each waits its share, not for a second of its own";
}

TEST(ANameOfManyAddresses, LeavesTimeToThoseBehindOneThatDoesNotAnswer) {
  const SilentPort first;
  const auto second = listen_on(HostPort{"127.0.0.1", 0});
  ASSERT_TRUE(second);
  ports_of_many = {first.port(), local_address(*second).port()};
  const auto socket = connect_to({kMany, 1}, CommClock::now() + milliseconds(1000));
  ports_of_many.clear();
  EXPECT_TRUE(socket) << socket.error();
}

TEST(TheNameOfTheLauncher, IsLookedUpOnce) {
  const testing::TemporaryFolder folder;
  const auto shell = folder / "shell";  // stands for ssh HOST COMMAND
  testing::write_text(shell, "#!/bin/sh\nshift\nexec /bin/sh -c \"$*\"\n");
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  RankSlot far;
  far.host = "far.example";
  far.remote = true;
  LaunchOptions options;
  options.argv = {"true"};
  options.slots = {far};
  options.ssh = shell.string();
  is_own = true;
  launch(options);
  is_own = false;
  EXPECT_EQ(asked_for_own, 1);
}

}  // namespace
}  // namespace starling::dist
