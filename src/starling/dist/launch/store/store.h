#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace starling {

// Key-value store for the rendezvous of a world's ranks: small values, each written once. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  // Writing the same value again is fine; a different one throws.
  virtual void set(std::string_view key, std::string_view value) = 0;
  // Blocks until the key is written; at the deadline throws Error naming the key and who is missing.
  virtual std::string get(std::string_view key, std::chrono::milliseconds deadline) = 0;

 protected:
  // Common errors of all stores; `where`: a place to look at.
  [[noreturn]] static void fail_rewritten(std::string_view key);
  [[noreturn]] static void fail_late(std::string_view key, std::chrono::milliseconds deadline, std::string_view where);
};

// Store for ranks that are threads of this process.
std::shared_ptr<Store> make_memory_store();

// Store in a folder that all ranks see and that no earlier run has used: one file per key. Created if missing; removal
// is left to the caller.
std::shared_ptr<Store> make_file_store(std::string folder);

// View of another store in which all keys get a prefix.
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

}  // namespace starling
