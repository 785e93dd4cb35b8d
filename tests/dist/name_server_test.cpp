#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "dist/comm_worlds.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/tcp_store.h"
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

}  // namespace

// Overrides the C library's, also for the code that is tested.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  if (name != nullptr && kSilent == name && (hints->ai_flags & AI_NUMERICHOST) == 0) {
    silent.wait();
    return EAI_AGAIN;
  }
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
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

}  // namespace
}  // namespace starling::dist
