#include "starling/dist/comm/gpu/device_comms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/ipc_comm.h"
#include "starling/dist/comm/gpu/peer_memory.h"
#include "starling/dist/launch/hosts.h"

namespace starling::dist {
GpuComm::GpuComm(std::shared_ptr<Comm> host, Connect connect)
    : Comm(host.get()), connect_(std::move(connect)), host_(std::move(host)) {
  if (connect_) device_ = connect_(host_->split(0, rank(), {.name = "device memory"}));
}

GpuComm::~GpuComm() = default;

void GpuComm::abort(std::string_view reason) {
  host_->abort(reason);
  if (device_) device_->abort(reason);
}

std::unique_ptr<Comm> GpuComm::make_part(const Call& call) {
  std::shared_ptr<Comm> part = Comm::make_part(*host_, call);
  return part ? std::make_unique<GpuComm>(std::move(part), connect_) : nullptr;
}

Comm* on_device(const Comm& comm) {
  const auto* gpu = dynamic_cast<const GpuComm*>(&comm);
  return gpu != nullptr ? gpu->on_device() : nullptr;
}

std::uint64_t staged_bytes(const Comm& comm) {
  const auto* gpu = dynamic_cast<const GpuComm*>(&comm);
  return gpu != nullptr ? gpu->staged_bytes() : 0;
}

OpCounters exchanged_in(const Comm& comm, CommOp op) {
  OpCounters all = comm.journal().counters(op);
  const Comm* device = on_device(comm);
  if (device == nullptr) return all;
  const OpCounters there = device->journal().counters(op);
  all.calls += there.calls;
  all.bytes_sent += there.bytes_sent;
  all.bytes_received += there.bytes_received;
  all.steps += there.steps;
  all.messages += there.messages;
  all.wait_ns += there.wait_ns;
  return all;
}

namespace {

constexpr std::size_t kProbe = 256;  // bytes that each rank lets the others read

// Introduction of a rank to the others: plain data.
struct Introduction {
  bool can = false;
  ProcessId process{};
  std::array<char, 64> host{};
  ExportedMemory memory{};
  std::array<char, 160> why{};
};

template <std::size_t kSize>
void write(std::array<char, kSize>& to, std::string_view text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
}

template <class T>
std::vector<T> gathered(Comm& comm, const T& own, std::string_view name) {
  std::vector<T> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&own, all.data(), sizeof(T), DType::u8, {.name = name}).wait();
  return all;
}

// A buffer that the others try to read.
class Probe {
 public:
  explicit Probe(DeviceReach& reach) : reach_(reach), data_(reach.allocate(2 * kProbe)) {}
  ~Probe() {
    reach_.drain();
    reach_.free(data_, 2 * kProbe);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  DeviceReach& reach_;
  void* data_;
};

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// Reads a few bytes of every other rank's memory; the first reason why that is impossible.
std::string look_at_others(const std::shared_ptr<DeviceReach>& reach, const Probe& probe, int rank,
                           const std::vector<Introduction>& all) {
  const Introduction& own = all[static_cast<std::size_t>(rank)];
  PeerMemory peers(reach);
  for (int peer = 0; peer < static_cast<int>(all.size()); ++peer) {
    const Introduction& other = all[static_cast<std::size_t>(peer)];
    if (peer == rank) continue;
    if (std::strncmp(other.host.data(), own.host.data(), own.host.size()) != 0)
      return fmt::format("rank {} is on another host", peer);
    const void* from = other.process == own.process ? reinterpret_cast<const void*>(other.memory.address)
                                                    : peers.address(peer, other.memory);
    reach->copy(probe.data() + kProbe, from, kProbe);
  }
  const DeviceReach::Mark mark = reach->mark();
  reach->drain();
  static_cast<void>(reach->passed(mark));  // throws where a read has failed
  return {};
}

}  // namespace

DeviceComms connect_devices(std::shared_ptr<Comm> host, std::shared_ptr<DeviceReach> reach) {
  Introduction own{.can = reach != nullptr, .process = reach ? reach->process() : ProcessId()};
  write(own.host, host_name());
  std::unique_ptr<Probe> probe;
  const auto refuse = [&](std::string_view why) {
    own.can = false;
    write(own.why, why);
  };
  if (!reach) {
    refuse("it has no GPU");
  } else {
    try {
      probe = std::make_unique<Probe>(*reach);
      own.memory = reach->export_memory(probe->data());
    } catch (const Error& error) {
      refuse(first_line(error.what()));
    }
  }
  const auto staged = [&](std::string why) -> DeviceComms {
    return {std::make_shared<GpuComm>(host, nullptr), std::move(why)};
  };
  const auto first_reason = [](const std::vector<Introduction>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].can) return fmt::format("rank {}: {}", rank, all[rank].why.data());
    }
    return std::string();
  };
  const std::vector<Introduction> all = gathered(*host, own, "device memory");
  if (std::string why = first_reason(all); !why.empty()) return staged(std::move(why));
  try {
    if (const std::string why = look_at_others(reach, *probe, host->rank(), all); !why.empty()) refuse(why);
  } catch (const Error& error) {
    refuse(first_line(error.what()));
  }
  // Also the end of the reads: nobody's probe goes before.
  const std::vector<Introduction> verdicts = gathered(*host, own, "device memory reached");
  if (std::string why = first_reason(verdicts); !why.empty()) return staged(std::move(why));
  const auto connect = [reach](std::unique_ptr<Comm> control) { return make_ipc_comm(reach, std::move(control)); };
  return {std::make_shared<GpuComm>(std::move(host), connect), {}};
}

}  // namespace starling::dist
