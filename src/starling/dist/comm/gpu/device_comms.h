#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/gpu/device_reach.h"

namespace starling::dist {

// Communicator of ranks on GPUs: for host memory that of `host`, which it decorates, and beside it one for device
// memory, where ranks reach each other's. So it is with every group split off.
class GpuComm final : public Comm {
 public:
  // Makes the communicator for device memory of a group of the same ranks over host memory.
  using Connect = std::function<std::unique_ptr<Comm>(std::unique_ptr<Comm> control)>;

  // Collective. connect: null where what ranks exchange goes through host memory.
  GpuComm(std::shared_ptr<Comm> host, Connect connect);
  ~GpuComm() override;

  Comm* on_device() const { return device_.get(); }  // null: there is none; lives as long as this one
  // Bytes of operands on this rank's GPU that exchanges have taken through host memory, both ways counted.
  std::uint64_t staged_bytes() const { return staged_.load(std::memory_order_relaxed); }
  void count_staged(std::uint64_t bytes) { staged_.fetch_add(bytes, std::memory_order_relaxed); }

  CommCapabilities capabilities() const override { return host_->capabilities(); }
  std::shared_ptr<Allocator> arena() const override { return host_->arena(); }
  void abort(std::string_view reason) override;
  void tell(const RankStatus& status) override { host_->tell(status); }
  RankStatus heard(int rank) override { return host_->heard(rank); }

 protected:
  Ticket start(const Call& call) override { return Comm::start(*host_, call); }
  bool poll(const Ticket& ticket) override { return Comm::poll(*host_, ticket); }
  bool await(const Ticket& ticket, CommTime deadline) override { return Comm::await(*host_, ticket, deadline); }
  void expire(const Ticket& ticket) override { Comm::expire(*host_, ticket); }
  std::unique_ptr<Comm> make_part(const Call& call) override;
  std::unique_ptr<Comm> make_side(std::string_view name) override { return Comm::make_side(*host_, name); }

 private:
  Connect connect_;
  std::shared_ptr<Comm> host_;
  std::unique_ptr<Comm> device_;
  std::atomic<std::uint64_t> staged_{0};
};

// GpuComm::on_device() and staged_bytes() of any communicator: none, and 0, of one that is no GpuComm.
Comm* on_device(const Comm& comm);
std::uint64_t staged_bytes(const Comm& comm);
// Cost of operations of one kind, in host memory and in device memory.
OpCounters exchanged_in(const Comm& comm, CommOp op);

struct DeviceComms {
  std::shared_ptr<GpuComm> comm{};
  std::string why_not{};  // the first rank that cannot reach the others' device memory, and why; empty: all can
};

// Finds out whether the GPUs of all ranks reach each other's memory, and connects them where they do (make_ipc_comm).
// Collective; all ranks get the same answer. A rank without a GPU gives a null reach.
DeviceComms connect_devices(std::shared_ptr<Comm> host, std::shared_ptr<DeviceReach> reach);

}  // namespace starling::dist
