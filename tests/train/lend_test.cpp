// States of several ranks in one checkpoint: rank 0 holds one piece of the others' at a time, and what a save may copy.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "starling/tensor/allocator.h"
#include "starling/train/checkpoint/streamed_save.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

constexpr std::int64_t kLarge = 3 << 20, kSmall = 100'000;  // elements of f32
constexpr std::int64_t kMostCopied = 1 << 20;

Tensor numbers(std::int64_t count, int rank) {
  Tensor made = empty({count}, DType::f32);
  for (std::int64_t i = 0; i < count; ++i) made.data<float>()[i] = static_cast<float>(i % 1000 + 10'000 * rank);
  return made;
}

// Runs body(link, tensors of the rank) on three ranks.
void on_three_ranks(const std::function<void(RankLink&, const std::vector<NamedTensor>&)>& body) {
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    RankLink link(allreduce(std::shared_ptr<Comm>(&comm, [](Comm*) {})));
    const std::vector<NamedTensor> own{{"large", numbers(kLarge, comm.rank())},
                                       {"small", numbers(kSmall, comm.rank())}};
    link.meet();
    body(link, own);
    link.meet();
  });
}

TEST(LentTensors, PassThroughRank0InPiecesOnTheirWayIntoACheckpoint) {
  const testing::TestFolder folder("lent");
  const CheckpointFolder checkpoints(folder.path() / "c");
  std::int64_t more = 0;
  on_three_ranks([&](RankLink& link, const std::vector<NamedTensor>& own) {
    Checkpoint made;
    made.step = 3;
    link.lend(own, made, [&](const Checkpoint& lent) {
      if (!link.leads()) return;
      EXPECT_EQ(lent.tensors.size(), 6u);
      const std::int64_t before = allocator(kCpu).stats().live_bytes;
      allocator(kCpu).reset_peak();
      auto save = checkpoints.begin_save(lent, kMostCopied).value();
      more = allocator(kCpu).stats().peak_bytes - before;
      checkpoints.finish_save(save).value();
    });
    EXPECT_FALSE(made.fetch);
  });
  EXPECT_GE(more, kSmall * 4) << "the last small tensor is copied, to be written later";
  EXPECT_LE(more, kMostCopied);
  const Checkpoint loaded = checkpoints.load(3).value();
  ASSERT_EQ(loaded.tensors.size(), 6u);
  for (const auto& [name, tensor] : loaded.tensors) {
    const Tensor wanted = numbers(name.ends_with(".large") ? kLarge : kSmall, name.at(5) - '0');
    ASSERT_EQ(tensor.shape(), wanted.shape()) << name;
    EXPECT_EQ(std::memcmp(tensor.raw(), wanted.raw(), data::host_bytes(wanted).size()), 0) << name;
  }
}

TEST(LentTensors, AreGivenUpInTheMiddleWhenTheDiskIsFull) {
  on_three_ranks([&](RankLink& link, const std::vector<NamedTensor>& own) {
    Checkpoint made;
    made.step = 3;
    int pieces = 0;
    link.lend(own, made, [&](const Checkpoint& lent) {
      for (const auto& tensor : lent.tensors) {
        if (tensor.tensor.device().kind != DeviceKind::null) continue;
        EXPECT_FALSE(lent.fetch(tensor, [&](std::span<const std::byte>) { return ++pieces < 0; })) << tensor.name;
      }
    });
    EXPECT_EQ(pieces, link.leads() ? 4 : 0) << "one of every tensor";
  });
}

TEST(LentTensors, EndTheOthersWhenRank0Fails) {
  const auto body = [&](RankLink& link, const std::vector<NamedTensor>& own) {
    Checkpoint made;
    made.step = 3;
    link.lend(own, made, [&](const Checkpoint&) {
      if (link.leads()) fail("[test] expected a disk, got none");
    });
  };
  EXPECT_THROW(on_three_ranks(body), Error);
}

}  // namespace
}  // namespace starling::train
