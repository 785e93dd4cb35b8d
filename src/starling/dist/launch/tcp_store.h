#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store.h"

namespace starling {

struct TcpStoreOptions {
  std::string address{};  // host:port of the StoreServer
  std::string secret{};
  int rank = 0;
  int world = 1;
  std::uint64_t epoch = 0;
  std::chrono::milliseconds join_deadline{60'000};  // to resolve, connect and be let in
};

// The values that a StoreServer keeps, seen from a rank. Any thread: a call that waits has its connection to itself,
// and others get one of their own.
class TcpStore final : public Store {
 public:
  // Joins: tries again, with growing pauses, until the deadline. Throws Error naming the address and what was in the
  // way; a refusal (another secret, version, start or world) is final and says what differs.
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::chrono::milliseconds deadline) override;

  // Tells the server something of which only the newest counts. Never waits: what cannot be sent at once is dropped.
  void note(std::string_view key, std::string_view value);

  // The same, and waits until the server has it, so that what others tell because of it counts as later. False: it
  // could not be told in that time.
  bool note_now(std::string_view key, std::string_view value, std::chrono::milliseconds deadline);

  // This host's address on the way to the server: where others can reach it, too.
  const std::string& local_host() const { return local_host_; }

 private:
  struct Connection;
  class Lease;

  std::unique_ptr<Connection> join();
  std::unique_ptr<Connection> take_idle();  // null: none
  Result<std::unique_ptr<Connection>> connect(SocketTime deadline, bool& final);

  TcpStoreOptions options_;
  HostPort server_;
  std::uint64_t process_;
  std::string local_host_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace starling
