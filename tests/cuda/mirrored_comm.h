// Runs calls on buffers of the host over a communicator for device memory: each on copies there, whose results are
// copied back when the call has ended. So the conformance suite, which looks at what it gets, runs on a GPU.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/comm.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/tensor.h"

namespace starling::testing {

class MirroredComm final : public Comm {
 public:
  MirroredComm(std::unique_ptr<Comm> inner, Device device)
      : Comm(inner.get()), device_(device), inner_(std::move(inner)) {}

  CommCapabilities capabilities() const override { return inner_->capabilities(); }
  void abort(std::string_view reason) override { inner_->abort(reason); }
  void tell(const dist::RankStatus& status) override { inner_->tell(status); }
  dist::RankStatus heard(int rank) override { return inner_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    Call there = call;
    Copies copies;
    const auto send = range_of(call.send, sent(call), call.dtype),
               recv = range_of(call.recv, received(call), call.dtype);
    if (send.bytes > 0 && recv.bytes > 0 && overlap(send, recv)) {  // in place: one copy of both
      auto* first = std::min(send.begin, recv.begin);
      auto* last = std::max(send.begin + send.bytes, recv.begin + recv.bytes);
      std::byte* at = copies.add(device_, {first, static_cast<std::size_t>(last - first)});
      there.send = at + (send.begin - first);
      there.recv = at + (recv.begin - first);
      copies.back = {recv.begin, at + (recv.begin - first), recv.bytes};
    } else {
      if (send.bytes > 0) there.send = copies.add(device_, send);
      if (recv.bytes > 0) {
        std::byte* at = copies.add(device_, recv);
        there.recv = at;
        copies.back = {recv.begin, at, recv.bytes};
      }
    }
    Ticket ticket = Comm::start(*inner_, there);
    const std::scoped_lock lock(mutex_);
    under_way_.emplace(std::pair(ticket.cookie, is_point_to_point(call.op)), std::move(copies));
    return ticket;
  }
  bool poll(const Ticket& ticket) override { return Comm::poll(*inner_, ticket) && bring(ticket); }
  bool await(const Ticket& ticket, CommTime deadline) override {
    return Comm::await(*inner_, ticket, deadline) && bring(ticket);
  }
  void expire(const Ticket& ticket) override { Comm::expire(*inner_, ticket); }
  std::unique_ptr<Comm> make_part(const Call& call) override {
    auto part = Comm::make_part(*inner_, call);
    return part ? std::make_unique<MirroredComm>(std::move(part), device_) : nullptr;
  }
  std::unique_ptr<Comm> make_side(std::string_view name) override { return Comm::make_side(*inner_, name); }

 private:
  struct Range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  // Memory of the device for one call, and what comes back of it.
  struct Copies {
    struct Back {
      std::byte* host = nullptr;
      std::byte* device = nullptr;
      std::size_t bytes = 0;
    } back;
    std::vector<Tensor> memory;

    std::byte* add(Device device, const Range& from) {
      memory.push_back(empty({static_cast<std::int64_t>(from.bytes)}, DType::u8, device));
      auto* at = static_cast<std::byte*>(memory.back().raw());
      device_memory(device.kind).from_host(at, from.begin, from.bytes);
      return at;
    }
  };

  std::int64_t sent(const Call& call) const {
    const bool at_root = rank() == call.peer;
    switch (call.op) {
      case CommOp::all_reduce:
      case CommOp::broadcast:
      case CommOp::send: return call.count;
      case CommOp::reduce_scatter:
      case CommOp::all_to_all: return dist::whole_length(call, size());
      case CommOp::all_gather:
      case CommOp::gather: return dist::piece_length(call, rank());
      case CommOp::scatter: return at_root ? dist::whole_length(call, size()) : 0;
      default: return 0;
    }
  }
  std::int64_t received(const Call& call) const {
    const bool at_root = rank() == call.peer;
    switch (call.op) {
      case CommOp::all_reduce:
      case CommOp::broadcast:
      case CommOp::recv: return call.count;
      case CommOp::all_gather:
      case CommOp::all_to_all: return dist::whole_length(call, size());
      case CommOp::reduce_scatter:
      case CommOp::scatter: return dist::piece_length(call, rank());
      case CommOp::gather: return at_root ? dist::whole_length(call, size()) : 0;
      default: return 0;
    }
  }
  static Range range_of(const void* data, std::int64_t elements, DType dtype) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), static_cast<std::size_t>(elements) * size_of(dtype)};
  }
  static bool overlap(const Range& a, const Range& b) {
    return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
  }

  bool bring(const Ticket& ticket) {
    const std::scoped_lock lock(mutex_);
    const auto found = under_way_.find(std::pair(ticket.cookie, is_point_to_point(ticket.op)));
    if (found == under_way_.end()) return true;
    const auto& back = found->second.back;
    if (back.bytes > 0) device_memory(device_.kind).to_host(back.host, back.device, back.bytes);
    under_way_.erase(found);
    return true;
  }

  Device device_;
  std::unique_ptr<Comm> inner_;
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, bool>, Copies> under_way_;
};

}  // namespace starling::testing
