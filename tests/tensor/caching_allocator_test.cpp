#include "starling/tensor/caching_allocator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "starling/base/error.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/memory_label.h"
#include "starling/tensor/memory_limit.h"
#include "starling/tensor/out_of_memory.h"

namespace starling {
namespace {

// A device of 1 MiB at first, whose state is the fixture's.
struct FakeDevice {
  std::size_t room = 1 << 20;
  std::size_t used = 0;
  int refusals = 0;
};
FakeDevice fake;

void* fake_allocate(std::size_t bytes, int index) {
  if (fake.used + bytes > fake.room) {
    ++fake.refusals;
    throw OutOfMemory(fmt::format("[allocator] expected {} bytes on cuda:{}, got none", bytes, index));
  }
  fake.used += bytes;
  auto* data = static_cast<std::size_t*>(std::malloc(sizeof(std::size_t)));
  *data = bytes;
  return data;
}
void fake_free(void* data, std::size_t, int) {
  fake.used -= *static_cast<std::size_t*>(data);
  std::free(data);
}
constexpr DeviceMemory kFake{fake_allocate, fake_free, nullptr, nullptr, nullptr, nullptr, nullptr};
constexpr Device kFakeGpu{DeviceKind::cuda, 3};

class CachingAllocatorOfAFullDevice : public ::testing::Test {
 protected:
  void SetUp() override { fake = {}; }
  std::unique_ptr<Allocator> made = make_caching_allocator(kFakeGpu, kFake, true);

  std::string refused(std::size_t bytes) {
    try {
      made->allocate(bytes);
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(CachingAllocatorOfAFullDevice, GivesFreedBlocksBackAndTriesOnceMore) {
  void* a = made->allocate(600 << 10);
  made->deallocate(a, 600 << 10);
  EXPECT_EQ(made->stats().cached_bytes, 640 << 10);  // its size class
  void* b = made->allocate(900 << 10);               // another size: what is kept must go first
  EXPECT_EQ(fake.refusals, 1);
  EXPECT_EQ(made->stats().cached_bytes, 0);
  EXPECT_EQ(made->stats().live_bytes, 960 << 10);
  made->deallocate(b, 900 << 10);
}

TEST_F(CachingAllocatorOfAFullDevice, NamesTheLargestHoldersByOpAndScope) {
  const NameScope net("net");
  void *small, *large, *other;
  {
    const MemoryLabel label("relu");
    small = made->allocate(64 << 10);
  }
  {
    const MemoryLabel label("matmul");
    const NameScope layer("fc1");
    large = made->allocate(512 << 10);
    other = made->allocate(128 << 10);
  }
  const std::string told = refused(768 << 10);
  EXPECT_EQ(told,
            "[allocator] expected 786432 bytes on cuda:3, got none; tensors hold 720896 bytes, and 0 bytes of freed "
            "ones were given back before; largest holders: 655360 bytes by matmul in net/fc1 (2), 65536 bytes by relu "
            "in net (1)");
  EXPECT_EQ(fake.refusals, 2);
  const auto holders = made->holders();
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].what, "matmul");
  EXPECT_EQ(holders[0].blocks, 2);
  made->deallocate(small, 64 << 10);
  EXPECT_EQ(made->holders().size(), 1u);
  made->deallocate(large, 512 << 10);
  made->deallocate(other, 128 << 10);
  EXPECT_TRUE(made->holders().empty());
}

TEST_F(CachingAllocatorOfAFullDevice, GoesOnAfterARefusal) {
  EXPECT_NE(refused(2 << 20), "");
  void* data = made->allocate(512 << 10);
  EXPECT_EQ(made->stats().live_bytes, 512 << 10);
  made->deallocate(data, 512 << 10);
  made->release_cached();
  EXPECT_EQ(fake.used, 0u);
}

TEST_F(CachingAllocatorOfAFullDevice, KeepsFreedBlocksWithinTheCap) {
  made->set_cap(512 << 10);
  void* a = made->allocate(256 << 10);
  made->deallocate(a, 256 << 10);
  void* b = made->allocate(448 << 10);  // with the kept block the device would give more than the cap
  EXPECT_EQ(fake.used, 448u << 10);
  EXPECT_NE(refused(128 << 10).find("expected to stay within the 524288 bytes allowed on cuda:3"), std::string::npos);
  EXPECT_NE(refused(128 << 10).find("largest holders: 458752 bytes by tensors (1)"), std::string::npos);
  made->deallocate(b, 448 << 10);
}

TEST_F(CachingAllocatorOfAFullDevice, WastesLittleOfLargeBlocks) {
  fake.room = std::size_t{1} << 40;
  constexpr std::size_t kBytes = (std::size_t{9} << 30) + 1;
  void* data = made->allocate(kBytes);
  EXPECT_EQ(fake.used, (std::size_t{9} << 30) + (2 << 20));
  made->deallocate(data, kBytes);
  EXPECT_EQ(made->allocate(kBytes), data) << "a block of its size was kept";
  EXPECT_EQ(made->stats().system_allocations, 1);
  made->deallocate(data, kBytes);
  made->release_cached();
  EXPECT_EQ(fake.used, 0u);
}

TEST(GpuMemoryLimit, IsForAllGpusOrByNumber) {
  EXPECT_EQ(gpu_memory_limit("", 0), 0);
  EXPECT_EQ(gpu_memory_limit("20", 5), 20 << 20);
  EXPECT_EQ(gpu_memory_limit("0=20,1=8", 0), 20 << 20);
  EXPECT_EQ(gpu_memory_limit("0=20,1=8", 1), 8 << 20);
  EXPECT_EQ(gpu_memory_limit("0=20,1=8", 2), 0);
  for (const char* wrong : {"much", "1=", "=3", "-1", "1=2=3", "20MB"}) {
    try {
      gpu_memory_limit(wrong, 0);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("[allocator] expected STARLING_GPU_MEMORY_MB as megabytes"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace starling
