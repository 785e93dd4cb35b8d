#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/dist/health/failure_detector.h"
#include "starling/dist/launch/socket.h"

namespace starling::dist {

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // exact address to bind; beyond loopback a secret is required
  // Address of the host, if it has been looked up already: names are asked for once.
  std::optional<SocketAddress> found = {};
  int port = 0;  // 0: any free port
  std::string secret = {};
  int world = 1;
  std::uint64_t epoch = 0;                              // start of the job; ranks of another one are refused
  std::chrono::milliseconds handshake_deadline{5'000};  // unauthenticated connections are closed after this
};

// Rendezvous server of a job: keeps the values of the TCP store and answers the ranks, on a thread of its own. A client
// must first prove, in messages of fixed size and within a short time, that it knows the secret and belongs to this
// start of the job and this version of the library. Stops when destroyed.
class StoreServer {
 public:
  // Throws Error naming the address if it cannot listen there, or if a required secret is missing.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::string address() const;  // host:port for the ranks

  // Newest note of a key (TcpStore::note). order: position of the key by first arrival, from 1.
  struct Note {
    std::string value;
    std::uint64_t order = 0;
  };
  std::optional<Note> note(const std::string& key) const;
  // Waits until the server has read what had arrived when this was called: the last notes of a rank that has died, say.
  // False if it did not come to it within the deadline.
  bool catch_up(std::chrono::milliseconds deadline) const;
  std::vector<int> missing() const;  // ranks that have not joined yet
  // Finding from the heartbeats of the ranks: who is silent or hung. All ranks that beat have been told.
  std::optional<FailureDetector::Finding> finding() const;

 private:
  class Loop;

  StoreServerOptions options_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace starling::dist
