#include "starling/dist/comm/staging/staged_plan.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "starling/base/round_up.h"
#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/kernels/host_plan.h"
#include "starling/tensor/allocator.h"

namespace starling::dist {
namespace {

// Host memory for one run, kept for the next ones; of the communicator's arena, so that ranks reduce it in place.
class Block {
 public:
  Block(std::shared_ptr<Allocator> arena, std::size_t bytes)
      : arena_(std::move(arena)), bytes_(bytes), data_(static_cast<std::byte*>(from().allocate(bytes))) {}
  ~Block() { from().deallocate(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool is_of(const std::shared_ptr<Allocator>& arena) const { return arena_ == arena; }
  std::byte* data() const { return data_; }

 private:
  Allocator& from() const { return arena_ ? *arena_ : allocator(kCpu); }

  std::shared_ptr<Allocator> arena_;
  std::size_t bytes_;
  std::byte* data_;
};

// Operands of one direction, packed in their order: those that are adjacent on the device are here, too, and travel as
// one copy.
class Packed {
 public:
  explicit Packed(std::span<const kernels::ArgDesc> operands, std::size_t& end) {
    for (const kernels::ArgDesc& operand : operands) {
      end = round_up(end, size_of(operand.dtype));
      offsets_.push_back(end);
      bytes_.push_back(bytes_of(operand));
      end += bytes_.back();
    }
    total_ = std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0});
  }

  std::size_t size() const { return bytes_.size(); }
  std::size_t bytes(std::size_t i) const { return bytes_[i]; }
  std::size_t total() const { return total_; }
  std::vector<void*> addresses(std::byte* block) const {
    std::vector<void*> at;
    for (const std::size_t offset : offsets_) at.push_back(block + offset);
    return at;
  }

  // Calls copy(device address, host address, bytes) for every run of adjacent operands.
  template <class Copy>
  void each_run(void* const* device, std::byte* block, Copy copy) const {
    for (std::size_t first = 0, end = 0; first < size(); first = end) {
      std::size_t bytes = bytes_[first];
      for (end = first + 1; end < size(); bytes += bytes_[end++]) {
        if (static_cast<std::byte*>(device[first]) + bytes != device[end] || offsets_[first] + bytes != offsets_[end])
          break;
      }
      if (bytes > 0) copy(device[first], block + offsets_[first], bytes);
    }
  }

 private:
  std::vector<std::size_t> offsets_, bytes_;
  std::size_t total_ = 0;
};

class StagedPlan final : public kernels::HostPlan {
 public:
  StagedPlan(std::unique_ptr<kernels::Plan> host, const kernels::PlanRequest& request, const DeviceMemory& memory)
      : host_(std::move(host)), memory_(memory), in_(request.in, end_), out_(request.out, end_) {
    scratch_at_ = round_up(end_);
    end_ = scratch_at_ + host_->scratch_bytes;
  }

  void run(const kernels::Launch& launch) const override {
    Comm* comm = launch.context.comm;
    const auto block = take(comm != nullptr ? comm->arena() : nullptr);
    std::byte* at = block->data();
    in_.each_run(launch.in, at,
                 [&](const void* from, void* to, std::size_t bytes) { memory_.to_host(to, from, bytes); });
    const std::vector<void*> in = in_.addresses(at), out = out_.addresses(at);
    host_->run({in.data(), out.data(), at + scratch_at_, launch.context});
    out_.each_run(launch.out, at,
                  [&](void* to, const void* from, std::size_t bytes) { memory_.from_host(to, from, bytes); });
    if (auto* gpu = dynamic_cast<GpuComm*>(comm)) gpu->count_staged(in_.total() + out_.total());
    give_back(block);
  }

 private:
  // Instances of one program may run at the same time; each has a block of its own then.
  std::shared_ptr<Block> take(const std::shared_ptr<Allocator>& arena) const {
    {
      std::scoped_lock lock(mutex_);
      while (!free_.empty()) {
        auto block = std::move(free_.back());
        free_.pop_back();
        if (block->is_of(arena)) return block;
      }
    }
    return std::make_shared<Block>(arena, std::max<std::size_t>(end_, 64));
  }
  void give_back(std::shared_ptr<Block> block) const {
    std::scoped_lock lock(mutex_);
    free_.push_back(std::move(block));
  }

  std::unique_ptr<kernels::Plan> host_;
  const DeviceMemory& memory_;
  std::size_t end_ = 0;  // of a block; before in_ and out_, which count it up
  Packed in_, out_;
  std::size_t scratch_at_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<Block>> free_;
};

class DevicePlan final : public kernels::HostPlan {
 public:
  DevicePlan(std::unique_ptr<kernels::Plan> direct, std::unique_ptr<kernels::Plan> staged)
      : direct_(std::move(direct)), staged_(std::move(staged)) {
    scratch_bytes = std::max(direct_->scratch_bytes, staged_->scratch_bytes);
  }

  void run(const kernels::Launch& launch) const override {
    Comm* comm = launch.context.comm;
    Comm* device = comm != nullptr ? on_device(*comm) : nullptr;
    if (comm != nullptr && device == nullptr) return staged_->run(launch);
    kernels::RunContext context = launch.context;
    context.comm = device;
    direct_->run({launch.in, launch.out, launch.scratch, context});
  }

 private:
  std::unique_ptr<kernels::Plan> direct_, staged_;
};

}  // namespace

std::unique_ptr<kernels::Plan> make_device_plan(std::unique_ptr<kernels::Plan> direct,
                                                std::unique_ptr<kernels::Plan> staged) {
  return std::make_unique<DevicePlan>(std::move(direct), std::move(staged));
}

std::unique_ptr<kernels::Plan> make_staged_plan(std::unique_ptr<kernels::Plan> on_host,
                                                const kernels::PlanRequest& request, const DeviceMemory& memory) {
  return std::make_unique<StagedPlan>(std::move(on_host), request, memory);
}

void add_comm_kernel(kernels::KernelTable& table, std::string_view op, CommPlan plan) {
  const auto on_host = [plan](const kernels::PlanRequest& request) {
    return plan(request, device_memory(DeviceKind::cpu));
  };
  table.add(op, DeviceKind::cpu, {"comm", kernels::Accepts::contiguous, on_host});
  if (!built_with_cuda()) return;
  table.add(op, DeviceKind::cuda,
            {"comm", kernels::Accepts::contiguous, [plan, on_host](const kernels::PlanRequest& request) {
               const DeviceMemory& memory = device_memory(DeviceKind::cuda);
               return make_device_plan(plan(request, memory), make_staged_plan(on_host(request), request, memory));
             }});
}

void add_host_comm_kernel(kernels::KernelTable& table, std::string_view op,
                          std::unique_ptr<kernels::Plan> (*plan)(const kernels::PlanRequest&)) {
  table.add(op, DeviceKind::cpu, {"comm", kernels::Accepts::contiguous, plan});
  if (!built_with_cuda()) return;
  table.add(op, DeviceKind::cuda,
            {"comm_staged", kernels::Accepts::contiguous, [plan](const kernels::PlanRequest& request) {
               return make_staged_plan(plan(request), request, device_memory(DeviceKind::cuda));
             }});
}

}  // namespace starling::dist
