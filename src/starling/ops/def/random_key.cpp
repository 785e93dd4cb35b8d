#include "starling/ops/def/random_key.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/state.h"

namespace starling::op {
namespace {

Tensor pair_on(Device device, std::int64_t first, std::int64_t second) {
  const std::int64_t values[2] = {first, second};
  const Tensor pair = from_host<std::int64_t>(values, {2});
  return device == kCpu ? pair : starling::to(pair, device);
}

}  // namespace

RandomKey::RandomKey() : tensor_(zeros({2}, DType::i64)) {
  tensor_.set_name("rng");
  places_.push_back({kCpu, tensor_.impl()->storage, constant(pair_on(kCpu, 0, 1))});
}

const Tensor& RandomKey::one_step() const {
  const auto here = std::find_if(places_.begin(), places_.end(),
                                 [&](const Place& place) { return place.device == tensor_.device(); });
  return here->one_step;
}

void RandomKey::set(std::int64_t seed, std::int64_t step) { copy_into(tensor_, pair_on(tensor_.device(), seed, step)); }

void RandomKey::to(Device device) {
  TensorImpl& impl = *tensor_.impl();
  if (impl.device == device) return;
  const Tensor values = starling::to(tensor_, device);
  impl.storage = place_on(device).memory;
  impl.device = device;
  copy_into(tensor_, values);
}

RandomKey::Place& RandomKey::place_on(Device device) {
  for (auto& place : places_) {
    if (place.device == device) return place;
  }
  const Tensor memory = empty({2}, DType::i64, device);
  return places_.emplace_back(Place{device, memory.impl()->storage, constant(pair_on(device, 0, 1))});
}

}  // namespace starling::op
