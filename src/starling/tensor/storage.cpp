#include "starling/tensor/storage.h"

#include <utility>

#include "starling/tensor/allocator.h"

namespace starling {

Storage::Storage(Device device, std::size_t bytes)
    : data_(allocator(device).allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::Storage(Device device, void* data, std::size_t bytes, Deleter deleter, bool read_only)
    : data_(data), bytes_(bytes), device_(device), read_only_(read_only), owned_(false), deleter_(std::move(deleter)) {}

Storage::~Storage() {
  if (owned_) {
    allocator(device_).deallocate(data_, bytes_);
  } else if (deleter_) {
    deleter_(data_);
  }
}

}  // namespace starling
