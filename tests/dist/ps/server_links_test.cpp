#include "starling/dist/ps/server_links.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "starling/base/error.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/wire.h"

namespace starling::dist::ps {
namespace {

// Server that answers a hello, and all else only once it is told to.
struct LateServer {
  std::deque<Message> asked{}, answers{};

  void take(const Message& message) {
    (message.header.verb == Verb::hello ? answers : asked).push_back({answer_to(message), {}});
  }
  void answer_all() {
    for (; !asked.empty(); asked.pop_front()) answers.push_back(asked.front());
  }
  static Header answer_to(const Message& message) {
    Header header = message.header;
    header.verb = Verb::done;
    header.slot = 0;
    return header;
  }
};

class LateSocket final : public Socket {
 public:
  explicit LateSocket(std::shared_ptr<LateServer> server) : server_(std::move(server)) {}
  void send(const Message& message, const std::string& /*peer*/) override { server_->take(message); }
  std::optional<Message> receive(std::string* /*peer*/) override {
    if (server_->answers.empty()) return std::nullopt;
    Message first = server_->answers.front();
    server_->answers.pop_front();
    return first;
  }
  const std::string& address() const override { return address_; }
  std::size_t dropped() const override { return 0; }

 private:
  std::shared_ptr<LateServer> server_;
  std::string address_ = "late";
};

class LateWire final : public Wire {
 public:
  explicit LateWire(std::shared_ptr<LateServer> server) : server_(std::move(server)) {}
  std::unique_ptr<Socket> listen(const std::string& /*address*/, std::size_t /*most*/) override { return nullptr; }
  std::unique_ptr<Socket> connect(const std::string& /*address*/, std::size_t /*most*/) override {
    return std::make_unique<LateSocket>(server_);
  }
  bool wait(std::span<Socket* const> /*sockets*/, milliseconds /*time*/) override { return !server_->answers.empty(); }

 private:
  std::shared_ptr<LateServer> server_;
};

class ServerLinksWithALateServer : public ::testing::Test {
 protected:
  const std::shared_ptr<LateServer> server_ = std::make_shared<LateServer>();
  const KeyTable keys_{{{.name = "w", .type = {DType::f32, {4}}}}, 1};
  bool stop_ = false;
  ServerLinks links_{
      std::make_shared<LateWire>(server_), keys_, {.servers = {{.address = "late"}}, .stop = [this] { return stop_; }}};
};

// The one who asked has thrown and left: what the answer was to be written into is gone.
TEST_F(ServerLinksWithALateServer, AnAnswerThatNobodyWaitsForAnyMoreIsTakenByNobody) {
  int taken = 0;
  const auto ask = [&] { return links_.broadcast({.verb = Verb::stats}, [&](const Message&) { ++taken; }); };
  const auto given_up = ask();
  stop_ = true;
  EXPECT_THROW(links_.wait(given_up), Error);
  stop_ = false;
  server_->answer_all();
  links_.take_arrived();
  EXPECT_TRUE(links_.done(given_up));
  EXPECT_EQ(taken, 0);
  const auto waited_for = ask();
  server_->answer_all();
  links_.wait(waited_for);
  EXPECT_EQ(taken, 1) << "control";
}

}  // namespace
}  // namespace starling::dist::ps
