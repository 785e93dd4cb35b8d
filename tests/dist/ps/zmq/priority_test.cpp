// Order in which a server carries out what has arrived: first layers first, whoever sends them last.
#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"

namespace starling::dist::ps {
namespace {

// Wire that writes down which keys' answers come back, in their order. Switched off, priorities are not sent.
class NotedWire final : public Wire {
 public:
  NotedWire(std::shared_ptr<Wire> wire, bool priorities) : wire_(std::move(wire)), priorities_(priorities) {}

  std::unique_ptr<Socket> listen(const std::string& address, std::size_t most) override {
    return wire_->listen(address, most);
  }
  std::unique_ptr<Socket> connect(const std::string& address, std::size_t most) override {
    return std::make_unique<Line>(wire_->connect(address, most), *this);
  }
  bool wait(std::span<Socket* const> sockets, milliseconds time) override {
    std::vector<Socket*> inner;
    for (Socket* socket : sockets) inner.push_back(static_cast<Line*>(socket)->line.get());
    return wire_->wait(inner, time);
  }
  std::vector<std::uint32_t> take() { return std::exchange(answered_, {}); }

 private:
  struct Line final : Socket {
    Line(std::unique_ptr<Socket> real, NotedWire& to) : line(std::move(real)), noted(to) {}
    void send(const Message& message, const std::string& peer) override {
      Message sent = message;
      if (!noted.priorities_) sent.header.priority = 0;
      line->send(sent, peer);
    }
    std::optional<Message> receive(std::string* peer) override {
      auto message = line->receive(peer);
      if (message) noted.answered_.push_back(message->header.key);
      return message;
    }
    const std::string& address() const override { return line->address(); }
    std::size_t dropped() const override { return line->dropped(); }
    std::unique_ptr<Socket> line;
    NotedWire& noted;
  };

  std::shared_ptr<Wire> wire_;
  bool priorities_;
  std::vector<std::uint32_t> answered_;
};

// Keys in the order in which they are answered, of pushes and then pulls that all lie at the server before it looks.
std::vector<std::uint32_t> answers(bool priorities) {
  const auto net = small_net();
  const KeyTable table(net, 1);
  const auto wire = make_wire();
  const auto noted = std::make_shared<NotedWire>(wire, priorities);
  Server server(wire, table, {.address = "inproc://busy"});
  std::atomic<bool> ended{false};
  const auto serve = [&] { return std::thread([&] { server.run([&] { return ended.load(); }); }); };
  std::thread serving = serve();
  Client worker(noted, table, {.servers = {{.address = server.address()}}});
  put_all(worker, first_weights(net));
  ended = true;
  serving.join();
  noted->take();

  const auto gradients = first_weights(net);
  std::vector<Tensor> into;
  for (const auto& tensor : net) into.push_back(empty(tensor.type.shape));
  for (std::size_t t = net.size(); t-- > 0;) worker.push(t, gradients[t]);  // as a backward pass makes them
  for (std::size_t t = net.size(); t-- > 0;) worker.pull(t, into[t]);
  ended = false;
  serving = serve();
  worker.wait_all();
  ended = true;
  serving.join();
  return noted->take();
}

TEST(PsPriority, FirstLayersAreServedFirstThoughTheyWerePushedAndPulledLast) {
  EXPECT_EQ(answers(true), (std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2})) << "each push before the pull behind it";
}

TEST(PsPriority, ControlWithoutPrioritiesTheyAreServedAsTheyArrive) {
  EXPECT_EQ(answers(false), (std::vector<std::uint32_t>{2, 1, 0, 2, 1, 0}));
}

}  // namespace
}  // namespace starling::dist::ps
