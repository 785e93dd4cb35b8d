#include <algorithm>
#include <cerrno>

#include "starling/base/error.h"
#include "starling/dist/ps/zmq/zmq_socket.h"

namespace starling::dist::ps {
namespace {

class ZmqWire final : public Wire {
 public:
  explicit ZmqWire(WireOptions options) : options_(std::move(options)), context_(std::make_shared<ZmqContext>()) {}

  std::unique_ptr<Socket> listen(const std::string& address, std::size_t most) override {
    return std::make_unique<ZmqSocket>(context_, SocketSide::listens, address, most, options_.secret);
  }
  std::unique_ptr<Socket> connect(const std::string& address, std::size_t most) override {
    return std::make_unique<ZmqSocket>(context_, SocketSide::connects, address, most, options_.secret);
  }

  bool wait(std::span<Socket* const> sockets, milliseconds time) override {
    std::vector<zmq_pollitem_t> items;
    for (Socket* socket : sockets) {
      const auto& one = static_cast<const ZmqSocket&>(*socket);
      items.push_back({one.handle(), 0, ZMQ_POLLIN, 0});
      if (one.monitor() != nullptr) items.push_back({one.monitor(), 0, ZMQ_POLLIN, 0});
    }
    const auto found = zmq_poll(items.data(), static_cast<int>(items.size()), std::max<long>(time.count(), 0));
    check(found >= 0 || zmq_errno() == EINTR, "[ps] could not wait for messages: {}", zmq_strerror(zmq_errno()));
    return found > 0;
  }

 private:
  WireOptions options_;
  std::shared_ptr<ZmqContext> context_;
};

}  // namespace

bool has_wire() { return true; }

std::shared_ptr<Wire> make_wire(const WireOptions& options) { return std::make_shared<ZmqWire>(options); }

}  // namespace starling::dist::ps
