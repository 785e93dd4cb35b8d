#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "starling/tensor/device_copies.h"

namespace starling::train {

// Losses of steps on a device, on their way to the host while later steps run there. They come in the order of their
// steps.
class LateLosses {
 public:
  struct Loss {
    double loss = 0;
    double weight = 0;
  };

  explicit LateLosses(std::shared_ptr<DeviceCopies> copies, std::size_t most = 32);

  // Sends the scalars that the programs enqueued before make. An undefined weight is `rows`. With `most` losses under
  // way, call take(true) first.
  void send(const Tensor& loss, const Tensor& weight, double rows);
  bool full() const { return sent_ - taken_ == slots_.size(); }
  bool empty() const { return sent_ == taken_; }
  // The oldest under way; none if it has not arrived and is not to be waited for, or nothing is under way.
  std::optional<Loss> take(bool wait);
  void forget() { taken_ = sent_; }

 private:
  struct Slot {
    Tensor loss, weight;
    double rows = 0;
    bool weighted = false;
    std::unique_ptr<DeviceMark> arrived;
  };
  Slot& slot_of(std::size_t number) { return slots_[number % slots_.size()]; }
  void send(const Tensor& scalar, Tensor& into);

  std::shared_ptr<DeviceCopies> copies_;
  std::vector<Slot> slots_;
  std::size_t sent_ = 0, taken_ = 0;
};

}  // namespace starling::train
