#include "starling/dist/launch/store/store.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "starling/base/error.h"

namespace starling {
namespace {

class MemoryStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    {
      const std::lock_guard lock(mutex_);
      const auto [entry, fresh] = values_.emplace(key, value);
      if (!fresh && entry->second != value) fail_rewritten(key);
    }
    written_.notify_all();
  }

  std::string get(std::string_view key, std::chrono::milliseconds deadline) override {
    std::unique_lock lock(mutex_);
    auto entry = values_.end();
    const auto there = [&] { return (entry = values_.find(key)) != values_.end(); };
    if (!written_.wait_for(lock, deadline, there)) fail_late(key, deadline, "of this process's store");
    return entry->second;
  }

 private:
  std::mutex mutex_;
  std::condition_variable written_;
  std::map<std::string, std::string, std::less<>> values_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(prefixed(key), value); }
  std::string get(std::string_view key, std::chrono::milliseconds deadline) override {
    return store_->get(prefixed(key), deadline);
  }

 private:
  std::string prefixed(std::string_view key) const { return fmt::format("{}/{}", prefix_, key); }

  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

void Store::fail_rewritten(std::string_view key) {
  fail("[store] expected '{}' to be written once, got a second, different value", key);
}

void Store::fail_late(std::string_view key, std::chrono::milliseconds deadline, std::string_view where) {
  fail("[store] expected '{}' within {:.1f} s, got nothing: no rank has written this value {}", key,
       std::chrono::duration<double>(deadline).count(), where);
}

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(store), std::move(prefix));
}

}  // namespace starling
