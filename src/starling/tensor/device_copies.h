#pragma once

#include <cstddef>
#include <memory>

#include "starling/tensor/tensor.h"

namespace starling {

// Point in the work of a device, set anew as often as wanted. Before it is first set it counts as passed.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  virtual void set_after_copies() = 0;    // all copies to the device that have been enqueued
  virtual void set_after_programs() = 0;  // all programs, eager ops and copies to the host
  virtual void copies_wait() = 0;         // later copies to the device begin behind it; returns at once
  virtual void programs_wait() = 0;       // the same for programs
  virtual bool passed() = 0;
  virtual void wait() = 0;  // the calling thread
};

// Copies between host and device without waiting: those to the device run beside its programs, those to the host
// behind the programs enqueued before. Host memory is pinned and must stay as it is until a mark behind the copy is
// passed. Thread-safe; marks are for one thread at a time.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;
  virtual Device device() const = 0;
  virtual Tensor pinned(const Shape& shape, DType dtype) = 0;  // memory of the host, which outlives this object
  virtual void to_device(void* device, const void* pinned, std::size_t bytes) = 0;
  virtual void to_host(void* pinned, const void* device, std::size_t bytes) = 0;
  virtual std::unique_ptr<DeviceMark> mark() = 0;
};

// Null for devices that share the host's memory, and for the null device.
std::shared_ptr<DeviceCopies> device_copies(Device device);

std::shared_ptr<DeviceCopies> make_cuda_copies(int index);  // throws in builds without CUDA

}  // namespace starling
