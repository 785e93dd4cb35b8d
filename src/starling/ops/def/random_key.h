#pragma once

#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::op {

// Key of a generator, i64[2] = (seed, step): one tensor for life, whose memory moves between devices. The memory that
// it had on a device is kept for its return, so that programs bound to it find it there.
class RandomKey {
 public:
  RandomKey();

  const Tensor& tensor() const { return tensor_; }
  const Tensor& one_step() const;  // (0, 1) on the key's device
  void set(std::int64_t seed, std::int64_t step);
  void to(Device device);

 private:
  struct Place {
    Device device;
    Ref<Storage> memory;
    Tensor one_step;
  };
  Place& place_on(Device device);

  Tensor tensor_;
  std::vector<Place> places_;
};

}  // namespace starling::op
