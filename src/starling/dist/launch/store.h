#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace starling {

// Where the ranks of a world find each other before they can talk: small values by name, written once. Any thread.
class Store {
 public:
  virtual ~Store() = default;

  // Writing the same value again is fine; another one throws.
  virtual void set(std::string_view key, std::string_view value) = 0;
  // Waits until someone has written it; throws Error naming the key and who is missing when that takes longer.
  virtual std::string get(std::string_view key, std::chrono::milliseconds deadline) = 0;

 protected:
  // How all of them complain; `where` is a place to look at.
  [[noreturn]] static void fail_rewritten(std::string_view key);
  [[noreturn]] static void fail_late(std::string_view key, std::chrono::milliseconds deadline, std::string_view where);
};

// For ranks that are threads of this process.
std::shared_ptr<Store> make_memory_store();

// In a folder that all ranks see and that no earlier run has used: one file a key. Made when it is not there; left to
// the caller to remove.
std::shared_ptr<Store> make_file_store(std::string folder);

// Keys of the other store with a prefix of their own.
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

}  // namespace starling
