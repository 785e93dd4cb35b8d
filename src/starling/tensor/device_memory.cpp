#include "starling/tensor/device_memory.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "starling/base/error.h"
#include "starling/tensor/out_of_memory.h"

namespace starling {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t host_memory() {
  static const std::size_t bytes =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void* cpu_allocate(std::size_t bytes, int) {
  // Overcommitting systems would fail only later, on first access.
  if (bytes > host_memory())
    throw OutOfMemory(fmt::format("[allocator] expected at most the {} bytes of this machine, got a request for {}",
                                  host_memory(), bytes));
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (!data) throw OutOfMemory(fmt::format("[allocator] expected {} bytes of host memory, got none", bytes));
  return data;
}

void cpu_free(void* data, std::size_t, int) { std::free(data); }

void cpu_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

void cpu_zeros(void* data, std::size_t bytes) {
  if (bytes > 0) std::memset(data, 0, bytes);
}

// Null device: a dummy address that must not be dereferenced.
void* null_allocate(std::size_t, int) { return nullptr; }
void null_free(void*, std::size_t, int) {}
void null_copy(void*, const void*, std::size_t) {
  fail("[device] expected memory, got the null device, which has none");
}

void null_zeros(void*, std::size_t) {}

constexpr DeviceMemory kCpuMemory{cpu_allocate, cpu_free, cpu_copy, cpu_copy, cpu_copy, cpu_copy, cpu_zeros};
constexpr DeviceMemory kNullMemory{null_allocate, null_free, null_copy, null_copy, null_copy, null_copy, null_zeros};

}  // namespace

const DeviceMemory& device_memory(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu: return kCpuMemory;
    case DeviceKind::null: return kNullMemory;
    case DeviceKind::cuda: return cuda_memory();
  }
  fail("[device] expected a known kind of device, got {}", static_cast<int>(kind));
}

}  // namespace starling
