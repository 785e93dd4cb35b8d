#include "starling/train/loop/late_losses.h"

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::train {

LateLosses::LateLosses(std::shared_ptr<DeviceCopies> copies, std::size_t most) : copies_(std::move(copies)) {
  check(copies_ != nullptr && most > 0, "[train] expected a device and room for losses on their way, got {} of room {}",
        copies_ ? "one" : "none", most);
  slots_.resize(most);
  for (auto& slot : slots_) slot.arrived = copies_->mark();
}

void LateLosses::send(const Tensor& scalar, Tensor& into) {
  if (!into.defined() || into.dtype() != scalar.dtype()) into = copies_->pinned(scalar.shape(), scalar.dtype());
  copies_->to_host(into.raw(), scalar.impl()->address(), bytes_of(scalar));
}

void LateLosses::send(const Tensor& loss, const Tensor& weight, double rows) {
  check(!full(), "[train] expected room for another loss on its way, got {} that nobody has taken", slots_.size());
  Slot& slot = slot_of(sent_);
  slot.arrived->wait();  // of one that was forgotten
  slot.rows = rows;
  slot.weighted = weight.defined();
  send(loss, slot.loss);
  if (slot.weighted) send(weight, slot.weight);
  slot.arrived->set_after_programs();
  ++sent_;
}

std::optional<LateLosses::Loss> LateLosses::take(bool wait) {
  if (empty()) return std::nullopt;
  Slot& slot = slot_of(taken_);
  if (wait) slot.arrived->wait();
  if (!wait && !slot.arrived->passed()) return std::nullopt;
  ++taken_;
  return Loss{slot.loss.item(), slot.weighted ? slot.weight.item() : slot.rows};
}

}  // namespace starling::train
