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

#include "starling/base/file.h"

namespace starling {

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // what it binds, exactly; beyond loopback it needs a secret
  int port = 0;                    // 0: one that is free
  std::string secret = {};
  int world = 1;
  std::uint64_t epoch = 0;                              // ranks of another start of the job are refused
  std::chrono::milliseconds handshake_deadline{5'000};  // a connection that has not proved itself by then is closed
};

// The rendezvous of a job: keeps the values of the TCP store and answers the ranks, on a thread of its own. Whoever
// connects must first prove, in messages of fixed size and within a short time, that it knows the secret and belongs to
// this start of the job and this version of the library. Ends with the object.
class StoreServer {
 public:
  // Throws Error naming the address when it cannot listen there, or when it would need a secret and has none.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::string address() const;  // host:port to be told to the ranks

  // The newest note of that name (TcpStore::note), and when that name was first heard of: 1 is the first of all.
  struct Note {
    std::string value;
    std::uint64_t order = 0;
  };
  std::optional<Note> note(const std::string& key) const;
  std::vector<int> missing() const;  // ranks that have not come yet

 private:
  class Loop;

  StoreServerOptions options_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace starling
