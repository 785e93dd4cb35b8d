// Strangers at the ports of ranks that join: none of their bytes reaches Gloo, and the join goes on.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <regex>

#include "dist/transport_conformance.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/launch/socket.h"

namespace starling::dist {
namespace {

using namespace transport_checks;

// Store that tells where ranks listen, as a port scanner would find out.
class Told final : public Store {
 public:
  explicit Told(std::function<void(const HostPort&)> tell) : tell_(std::move(tell)) {}
  void set(std::string_view key, std::string_view value) override {
    const auto card = nlohmann::json::parse(value);
    if (card.contains("port")) tell_({card.at("host").get<std::string>(), card.at("port").get<int>()});
    inner_->set(key, value);
  }
  std::string get(std::string_view key, milliseconds deadline) override { return inner_->get(key, deadline); }

 private:
  std::function<void(const HostPort&)> tell_;
  std::shared_ptr<Store> inner_ = make_memory_store();
};

// Port scanner: connects to every port it is told, several times each, and does what the numbers say.
class Scanner {
 public:
  void visit(const HostPort& where) {
    for (int manner = 0; manner < 5; ++manner) {
      auto socket = connect_to(where, CommClock::now() + milliseconds(1'000));
      if (!socket) continue;
      const std::string claim = "starlgl2" + std::string(40, 'x');
      const std::string bytes = manner == 1   ? std::string(4096, '\xff')
                                : manner == 2 ? "GET / HTTP/1.1\r\n\r\n"
                                : manner == 3 ? claim
                                : manner == 4 ? claim + std::string(80, '\0')
                                              : "";
      ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (manner % 2 == 1) held_.push_back(std::move(*socket));  // others leave at once
    }
  }
  void let_go() { held_.clear(); }

 private:
  std::vector<UniqueFd> held_;
};

// Label: waits
TEST(GlooStrangers, KeepNoRankFromJoining) {
  int failed = 0;
  for (int round = 0; round < 100; ++round) {
    Scanner scanner;
    std::mutex mutex;
    const auto store = std::make_shared<Told>([&](const HostPort& where) {
      const std::scoped_lock lock(mutex);
      scanner.visit(where);
    });
    const auto errors = errors_of_threads(3, [&](int rank) {
      const auto transport = make_gloo_transport(store, {.rank = rank, .size = 3}, {.join = milliseconds(20'000)});
      exchange_all(*transport, 100, 1);
    });
    for (const auto& error : errors) {
      EXPECT_EQ(error, "");
      failed += error.empty() ? 0 : 1;
    }
    if (failed > 3) break;
  }
}

// Words of two ranks on stderr while they join, with a scanner beside them or without.
std::string told_while_joining(bool scanned) {
  Scanner scanner;
  std::mutex mutex;
  const auto store = std::make_shared<Told>([&](const HostPort& where) {
    const std::scoped_lock lock(mutex);
    if (scanned) scanner.visit(where);
  });
  ::testing::internal::CaptureStderr();
  for (const auto& error : errors_of_threads(2, [&](int rank) {
         const auto transport = make_gloo_transport(store, {.rank = rank, .size = 2}, {.join = milliseconds(20'000)});
         exchange_all(*transport, 100, 1);
       }))
    EXPECT_EQ(error, "");
  return ::testing::internal::GetCapturedStderr();
}

TEST(GlooStrangers, AreTold) {
  const std::regex words(
      "starling: rank 0 dropped (a connection that was|\\d+ connections that were) not of this job while ranks joined, "
      "the last from 127\\.0\\.0\\.1");
  const std::string told = told_while_joining(true);
  EXPECT_TRUE(std::regex_search(told, words)) << told;
  EXPECT_EQ(told_while_joining(false), "") << "control";
}

// Label: waits
TEST(GlooStrangers, ManySilentOnesKeepNoRankOut) {
  std::vector<UniqueFd> held;
  std::mutex mutex;
  const auto store = std::make_shared<Told>([&](const HostPort& where) {
    const std::scoped_lock lock(mutex);
    for (int i = 0; i < 100; ++i) {
      if (auto socket = connect_to(where, CommClock::now() + milliseconds(1'000))) held.push_back(std::move(*socket));
    }
  });
  const auto errors = errors_of_threads(3, [&](int rank) {
    const auto transport = make_gloo_transport(store, {.rank = rank, .size = 3}, {.join = milliseconds(20'000)});
    exchange_all(*transport, 100, 1);
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(GlooStrangers, AJoinIsLeftSoonWhenAskedTo) {
  std::atomic<bool> stop = false;
  std::jthread asks([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop = true;
  });
  const auto store = make_memory_store();
  store->set("gloo/world/0/1",
             R"({"host": "127.0.0.1", "port": 1, "token": ")" + std::string(64, '0') + R"(", "size": 2})");
  const CommTime began = CommClock::now();
  const auto errors = errors_of_threads(1, [&](int) {
    make_gloo_transport(store, {.rank = 0, .size = 2},
                        {.join = milliseconds(120'000), .stop = [&] { return stop.load(); }});
  });
  EXPECT_NE(errors[0].find("was asked to stop while ranks were joining"), std::string::npos) << errors[0];
  EXPECT_LT(seconds_since(began), kAtOnce);
}

}  // namespace
}  // namespace starling::dist
