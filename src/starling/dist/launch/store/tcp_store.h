#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/store.h"
#include "starling/dist/launch/store/store_line.h"

namespace starling::dist {

struct TcpStoreOptions {
  std::string address{};  // host:port of the StoreServer
  std::string secret{};
  int rank = 0;
  int world = 1;
  std::uint64_t epoch = 0;
  std::chrono::milliseconds join_deadline{60'000};  // to resolve, connect and authenticate
  std::function<bool()> stop{};                     // polled in waits; true: they throw Error; null: never
};

// Client of a StoreServer. Thread-safe: a blocking call has its connection to itself, and others get their own.
class TcpStore final : public Store {
 public:
  // Connects, retrying with growing pauses until the deadline. Throws Error naming the address and the obstacle; a
  // refusal (another secret, version, start or world) is final and says what differs.
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::chrono::milliseconds deadline) override;

  // Sends a value of which only the newest counts. Never blocks: dropped if it cannot be sent at once.
  void note(std::string_view key, std::string_view value);

  // note() that waits until the server has it, so that notes of other ranks caused by it are ordered later. False if
  // not delivered by the deadline.
  bool note_now(std::string_view key, std::string_view value, std::chrono::milliseconds deadline);

  // Connection of its own, for a thread that beats (heartbeat_sender.h).
  std::unique_ptr<StoreLine> line() { return join(); }
  std::unique_ptr<StoreLine> line_at_once();  // one short try; null: it failed

  // Local address of the connection to the server, where others can reach this host, too.
  const std::string& local_host() const { return local_host_; }

 private:
  class Lease;

  std::unique_ptr<StoreLine> join();
  void check_stop(std::string_view awaited) const;
  std::unique_ptr<StoreLine> take_idle();  // null: no idle connection
  Result<std::unique_ptr<StoreLine>> connect(SocketTime deadline, bool& final);

  TcpStoreOptions options_;
  HostPort server_;
  std::uint64_t process_;
  std::string local_host_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StoreLine>> idle_;
};

}  // namespace starling::dist
