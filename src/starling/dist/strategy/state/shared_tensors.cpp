#include "starling/dist/strategy/state/shared_tensors.h"

#include <array>
#include <cstring>
#include <fstream>

#include "starling/base/error.h"
#include "starling/dist/comm/shared/mapping.h"
#include "starling/dist/comm/shared/process.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

constexpr std::size_t kLine = 64;  // tensors start on their own cache lines

std::size_t padded(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Boot id of this host, unique per host and boot.
std::array<char, 40> boot() {
  std::array<char, 40> text{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(text.data(), text.size() - 1);
  return text;
}

// Message by which rank 0 tells the others where the memory is.
struct Invitation {
  std::array<char, 40> host{};
  ProcessId process{};
  std::uint64_t bytes = 0;
  std::shared_ptr<Mapping>* mapping = nullptr;  // for threads of the same process
  std::array<char, 160> address{};              // for other processes
};

std::shared_ptr<Mapping> take(const Invitation& invitation) {
  check(invitation.host == boot(), "[hogwild] expected ranks of one host, got one of another");
  if (invitation.process == this_process()) return *invitation.mapping;
  return Mapping::open(invitation.address.data());
}

void move_into(const Tensor& tensor, std::byte* place, const std::shared_ptr<Mapping>& mapping) {
  TensorImpl& impl = *tensor.impl();
  impl.storage = new Storage(
      kCpu, place, bytes_of(tensor), [mapping](void*) {}, false);
  impl.offset = 0;
}

}  // namespace

SharedTensors::SharedTensors(Comm& comm, const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    check(tensor.device().kind == DeviceKind::cpu && tensor.contiguous(),
          "[hogwild] expected contiguous tensors on the CPU, got '{}' on {}", name, to_string(tensor.device()));
    bytes_ += padded(bytes_of(tensor));
  }
  Invitation invitation;
  if (comm.rank() == 0) {
    mapping_ = Mapping::create(bytes_);
    invitation = {.host = boot(), .process = this_process(), .bytes = bytes_, .mapping = &mapping_};
    const std::string address = mapping_->address();
    check(address.size() < invitation.address.size(), "[hogwild] expected a short address, got '{}'", address);
    std::memcpy(invitation.address.data(), address.c_str(), address.size() + 1);
  }
  comm.broadcast(&invitation, sizeof(invitation), DType::u8, 0, {.name = "hogwild.memory"}).wait();
  check(invitation.bytes == bytes_, "[hogwild] expected {} bytes of weights as on rank 0, got {}", invitation.bytes,
        bytes_);
  if (comm.rank() > 0) mapping_ = take(invitation);
  std::byte* place = mapping_->data();
  for (const auto& [name, tensor] : tensors) {
    if (comm.rank() == 0 && bytes_of(tensor) > 0) std::memcpy(place, tensor.raw(), bytes_of(tensor));
    move_into(tensor, place, mapping_);
    place += padded(bytes_of(tensor));
  }
  comm.barrier({.name = "hogwild.memory"}).wait();  // all ranks have mapped it, with rank 0's values
  if (comm.rank() == 0) mapping_->close();
}

const std::byte* SharedTensors::data() const { return mapping_->data(); }

bool SharedTensors::holds(const Tensor& tensor) const {
  const auto* at = static_cast<const std::byte*>(tensor.raw());
  return at >= data() && at + bytes_of(tensor) <= data() + bytes_;
}

}  // namespace starling::dist
