#pragma once

#include <zmq.h>

#include <memory>

#include "starling/dist/ps/wire.h"

namespace starling::dist::ps {

// Context of ZeroMQ, shared by all sockets made with it: the last one ends it.
class ZmqContext {
 public:
  ZmqContext();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

enum class SocketSide { listens, connects };

class ZmqSocket final : public Socket {
 public:
  ZmqSocket(std::shared_ptr<ZmqContext> context, SocketSide side, const std::string& address, std::size_t most,
            const std::string& secret);
  ~ZmqSocket() override;
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  void send(const Message& message, const std::string& peer) override;
  std::optional<Message> receive(std::string* peer) override;
  const std::string& address() const override { return address_; }
  std::size_t dropped() const override { return dropped_; }
  bool lost() override;

  void* handle() const { return socket_; }
  void* monitor() const { return monitor_; }  // null: nothing to watch

 private:
  void set(int option, int value);
  void encrypt(const std::string& secret);
  void watch();
  bool receive_parts(std::vector<Bytes>& parts);
  void send_copy(const void* data, std::size_t size, bool more);
  void send_shared(const Bytes& bytes, bool more);

  std::shared_ptr<ZmqContext> context_;
  SocketSide side_;
  std::string address_;
  bool inside_;  // both ends are in this process
  void* socket_ = nullptr;
  void* monitor_ = nullptr;
  std::size_t dropped_ = 0;
};

}  // namespace starling::dist::ps
