#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "starling/tensor/bytes.h"
#include "starling/tensor/device_copies.h"

namespace starling::testing {

// A device whose memory is the host's, and which makes no copy before something waits for it: who forgets to wait sees
// what was there before.
class HeldCopies final : public DeviceCopies {
 public:
  HeldCopies() : lanes_(std::make_shared<Lanes>()) {}

  Device device() const override { return kCpu; }
  Tensor pinned(const Shape& shape, DType dtype) override { return empty(shape, dtype); }
  void to_device(void* device, const void* pinned, std::size_t bytes) override {
    lanes_->copies.add(device, pinned, bytes);
  }
  void to_host(void* pinned, const void* device, std::size_t bytes) override {
    lanes_->programs.add(pinned, device, bytes);
  }
  std::unique_ptr<DeviceMark> mark() override { return std::make_unique<Mark>(lanes_); }
  std::size_t under_way() const { return lanes_->copies.added() - lanes_->copies.count_made(); }

 private:
  class Lane {
   public:
    void add(void* to, const void* from, std::size_t bytes) {
      const std::scoped_lock lock(mutex_);
      held_.push_back([=] { std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to)); });
    }
    std::size_t added() const {
      const std::scoped_lock lock(mutex_);
      return held_.size();
    }
    std::size_t count_made() const {
      const std::scoped_lock lock(mutex_);
      return made_;
    }
    bool made(std::size_t count) const { return count_made() >= count; }
    void make(std::size_t count) {
      const std::scoped_lock lock(mutex_);
      for (; made_ < count; ++made_) held_[made_]();
    }

   private:
    mutable std::mutex mutex_;
    std::vector<std::function<void()>> held_;
    std::size_t made_ = 0;
  };
  struct Lanes {
    Lane copies, programs;
  };
  class Mark final : public DeviceMark {
   public:
    explicit Mark(std::shared_ptr<Lanes> lanes) : lanes_(std::move(lanes)), lane_(&lanes_->copies) {}
    void set_after_copies() override { set(lanes_->copies); }
    void set_after_programs() override { set(lanes_->programs); }
    void copies_wait() override { wait(); }
    void programs_wait() override { wait(); }
    bool passed() override { return lane_->made(count_); }
    void wait() override { lane_->make(count_); }

   private:
    void set(Lane& lane) {
      lane_ = &lane;
      count_ = lane.added();
    }
    std::shared_ptr<Lanes> lanes_;
    Lane* lane_;
    std::size_t count_ = 0;
  };

  std::shared_ptr<Lanes> lanes_;
};

}  // namespace starling::testing
