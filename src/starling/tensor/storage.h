#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "starling/base/pooled.h"
#include "starling/base/ref_counted.h"
#include "starling/tensor/device.h"

namespace starling {

// Memory shared by the tensors that view it: from the device's allocator, or foreign memory released by a deleter (a
// memory-mapped file, an arena, a foreign array). Read-only memory refuses assignment.
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

  // Counter of in-place writes; lets a gradient that saved this memory detect a change.
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
