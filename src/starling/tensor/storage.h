#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "starling/base/pooled.h"
#include "starling/base/ref_counted.h"
#include "starling/tensor/device.h"

namespace starling {

// A piece of memory shared by the tensors that view it. It came from the device's allocator, or belongs to someone else
// and is given back by their deleter (a memory-mapped file, an arena, a foreign array). Read-only memory refuses to be
// assigned.
class Storage final : public RefCounted, public Pooled<Storage> {
 public:
  using Deleter = std::function<void(void*)>;

  Storage(Device device, std::size_t bytes);
  Storage(Device device, void* data, std::size_t bytes, Deleter deleter, bool read_only);
  ~Storage() override;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool read_only() const { return read_only_; }

  // Counts in-place writes, so that a gradient that saved this memory can tell that it changed.
  std::uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  bool read_only_ = false;
  bool owned_ = true;
  std::uint32_t version_ = 0;
  Deleter deleter_;
};

}  // namespace starling
