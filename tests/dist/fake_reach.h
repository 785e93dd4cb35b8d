// A GPU's reach without a GPU: memory of the host, work that runs only when somebody looks whether it has ended, and
// counts of all that was done.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/device_reach.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {

class FakeReach final : public DeviceReach {
 public:
  // Ranks with other numbers of a process open each other's memory; those with the same use addresses.
  explicit FakeReach(int process) : process_{.pid = 1000 + process, .start = 1} {}

  ProcessId process() const override { return process_; }
  void* allocate(std::size_t bytes) override { return ::operator new(bytes); }
  void free(void* data, std::size_t) override { ::operator delete(data); }

  ExportedMemory export_memory(const void* data) override {
    if (!refusal.empty()) fail("[fake] {}", refusal);
    ++exported;
    const auto at = reinterpret_cast<std::uint64_t>(data);
    return {.allocation = at / kPage, .offset = at % kPage, .address = at};
  }
  void* open(const ExportedMemory& memory) override {
    if (closed_to_others) fail("[fake] memory of other processes is refused");
    ++opened;
    return reinterpret_cast<void*>(memory.allocation * kPage);
  }
  void close(void*) override { ++closed; }

  void await_producers() override { ++waits; }
  void copy(void* to, const void* from, std::size_t bytes) override {
    enqueue([=] { std::memmove(to, from, bytes); });
  }
  void reduce(DType dtype, ReduceOp op, std::span<const void* const> sources, void* out, std::int64_t count) override {
    enqueue([=, all = std::vector<const void*>(sources.begin(), sources.end())] {
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      std::vector<std::byte> block(static_cast<std::size_t>(kReduceBlock * size));  // any source may be the result
      for (std::int64_t at = 0; at < count; at += kReduceBlock) {
        const std::int64_t n = std::min(kReduceBlock, count - at);
        reduce_block(dtype, op, all, at, n, block.data());
        std::memcpy(static_cast<std::byte*>(out) + at * size, block.data(), static_cast<std::size_t>(n * size));
      }
    });
  }
  Mark mark() override { return std::make_shared<std::uint64_t>(enqueued_); }
  bool passed(const Mark& mark) override {
    const std::uint64_t wanted = *static_cast<const std::uint64_t*>(mark.get());
    if (done_ < wanted) run_one();
    return done_ >= wanted;
  }
  void drain() noexcept override {
    while (!queue_.empty()) run_one();
  }

  int exported = 0, opened = 0, closed = 0, waits = 0;
  std::string refusal;            // of exports
  bool closed_to_others = false;  // opens are refused

 private:
  static constexpr std::uint64_t kPage = 4096;

  void enqueue(std::function<void()> work) {
    queue_.push_back(std::move(work));
    ++enqueued_;
  }
  void run_one() {
    auto work = std::move(queue_.front());
    queue_.pop_front();
    work();
    ++done_;
  }

  ProcessId process_;
  std::deque<std::function<void()>> queue_;
  std::uint64_t enqueued_ = 0, done_ = 0;
};

}  // namespace starling::dist
