#include "starling/data/loading/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "data/stream_testing.h"
#include "starling/base/bytes.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::Folder;
using testing::number_shards;
using testing::take;
using testing::take_epoch;

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

const std::vector<int> kSizes = {20, 1, 13, 30, 0, 17, 19};  // 100 numbers

TEST(Stream, HandsOutEverySampleOnceAnEpochInOtherOrders) {
  const Folder folder;
  Loader loader(number_shards(folder.path(), kSizes), {.shuffle_samples = 16, .interleave = 3},
                {.batch = 8, .seed = 2});
  EXPECT_EQ(loader.samples_per_epoch(), -1);
  const auto first = take_epoch(loader);
  EXPECT_EQ(loader.position(), (DataPosition{1, 0}));
  EXPECT_EQ(loader.samples_per_epoch(), 100);
  EXPECT_EQ(loader.batches_per_epoch(), 13);
  const auto second = take_epoch(loader);
  EXPECT_EQ(sorted(first), counted(100));
  EXPECT_EQ(sorted(second), counted(100));
  EXPECT_NE(first, second);
}

TEST(Stream, KeepsTheOrderOfTheFilesWhenNotShuffled) {
  const Folder folder;
  Loader loader(number_shards(folder.path(), kSizes), {}, {.batch = 7, .shuffle = false});
  EXPECT_EQ(take_epoch(loader), counted(100));
  EXPECT_EQ(take_epoch(loader), counted(100));
}

TEST(Stream, DropsTheTailWhenAsked) {
  const Folder folder;
  Loader loader(number_shards(folder.path(), kSizes), {}, {.batch = 30, .shuffle = false, .drop_last = true});
  EXPECT_EQ(take_epoch(loader), counted(90));
  EXPECT_EQ(take_epoch(loader), counted(90));
  EXPECT_EQ(loader.samples_per_epoch(), 90);
}

TEST(Stream, IsTheSameWhateverTheNumberOfWorkersAndTheBatchSize) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  const StreamOptions stream{.shuffle_samples = 16, .interleave = 3};
  Loader one(shards, stream, {.batch = 8, .seed = 2});
  const auto first = take_epoch(one), second = take_epoch(one);
  for (const int workers : {1, 2, 5}) {
    for (const std::int64_t batch : {1, 13, 100}) {
      Loader loader(shards, stream, {.batch = batch, .seed = 2, .workers = workers, .prefetch = 3});
      EXPECT_EQ(take_epoch(loader), first) << workers << " " << batch;
      EXPECT_EQ(take_epoch(loader), second) << workers << " " << batch;
    }
  }
}

TEST(Stream, ResumesFromAStateWithExactlyTheNextSample) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  for (const StreamOptions& stream : {StreamOptions{.shuffle_samples = 16, .interleave = 3},
                                      StreamOptions{.shuffle_samples = 1000, .shuffle_bytes = 1500, .interleave = 2},
                                      StreamOptions{.shuffle_samples = 1000}}) {
    for (const int workers : {1, 2, 5}) {
      Loader whole(shards, stream, {.batch = 7, .seed = 5, .workers = workers, .prefetch = 4});
      for (int step = 0; step < 34; ++step) {
        const nlohmann::json state = nlohmann::json::parse(whole.state().dump());
        Loader resumed(shards, stream, {.batch = 7, .seed = 5});
        resumed.restore(state);
        ASSERT_EQ(resumed.position(), whole.position());
        ASSERT_EQ(take(resumed, 1), take(whole, 1)) << step;
        ASSERT_EQ(resumed.state(), whole.state()) << step;
      }
    }
  }
}

TEST(Stream, ResumedRunsEqualTheUndisturbedOne) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  const StreamOptions stream{.shuffle_samples = 16, .interleave = 3};
  Loader undisturbed(shards, stream, {.batch = 7, .seed = 5});
  const auto expected = take(undisturbed, 40);
  std::vector<std::int64_t> pieces;
  nlohmann::json state;
  for (int piece = 0; piece < 20; ++piece) {  // a new process every two batches
    Loader loader(shards, stream, {.batch = 7, .seed = 5, .workers = 1 + piece % 3, .prefetch = 1 + piece % 5});
    if (!state.is_null()) loader.restore(state);
    const auto part = take(loader, 2);
    pieces.insert(pieces.end(), part.begin(), part.end());
    state = nlohmann::json::parse(loader.state().dump());
  }
  EXPECT_EQ(pieces, expected);
}

TEST(Stream, GoesToAPositionByReadingUpToIt) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  const StreamOptions stream{.shuffle_samples = 16, .interleave = 3};
  Loader whole(shards, stream, {.batch = 1, .seed = 5});
  const auto all = take(whole, 202);
  for (const std::int64_t sample : {0, 1, 50, 99, 100}) {
    Loader loader(shards, stream, {.batch = 10, .seed = 5, .start = {0, sample}});
    const auto state = loader.state();
    const std::vector<std::int64_t> rest(all.begin() + sample, all.begin() + 100);
    EXPECT_EQ(take_epoch(loader), rest) << sample;
    loader.restore(state);
    EXPECT_EQ(take_epoch(loader), rest) << sample;
    loader.seek({0, sample});
    EXPECT_EQ(take_epoch(loader), rest) << sample;
  }
  Loader beyond(shards, stream, {.batch = 10, .seed = 5, .start = {0, 101}});
  EXPECT_EQ(error_of([&] { beyond.next(); }),
            "[loader] expected at least 101 samples in epoch 0 of the stream, got 100");
}

TEST(Stream, GivesEverySampleToOneRank) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  for (const int ranks : {2, 3, 7, 10}) {  // 10: more than there are shards
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        Loader loader(shards, {.shuffle_samples = 8, .interleave = 2},
                      {.batch = 4, .seed = 7, .rank = rank, .ranks = ranks, .start = {epoch, 0}});
        const auto part = take_epoch(loader);
        all.insert(all.end(), part.begin(), part.end());
      }
      EXPECT_EQ(sorted(all), counted(100)) << ranks;
    }
  }
}

// With a buffer as large as the set every sample should come first, and last, equally often.
TEST(Stream, ShufflesEvenlyWithALargeBuffer) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {5, 5});
  Loader loader(shards, {.shuffle_samples = 10}, {.batch = 10, .seed = 11});
  constexpr int kEpochs = 3000;
  std::vector<int> first(10), last(10);
  for (int i = 0; i < kEpochs; ++i) {
    const auto epoch = take_epoch(loader);
    ++first[static_cast<std::size_t>(epoch.front())];
    ++last[static_cast<std::size_t>(epoch.back())];
  }
  const double expected = kEpochs / 10.0;
  for (const auto& counts : {first, last}) {
    double chi = 0;
    for (auto count : counts) chi += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi, 30);  // 9 degrees of freedom
  }
}

TEST(Stream, ShufflesFartherWithALargerBuffer) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {2000});
  const auto distance = [&](std::int64_t samples) {
    Loader loader(shards, {.shuffle_samples = samples}, {.batch = 100, .seed = 1});
    const auto epoch = take_epoch(loader);
    double sum = 0;
    for (std::size_t i = 0; i < epoch.size(); ++i)
      sum += std::abs(static_cast<double>(epoch[i]) - static_cast<double>(i));
    return sum / static_cast<double>(epoch.size());
  };
  EXPECT_EQ(distance(1), 0);
  EXPECT_GT(distance(10), 4);
  EXPECT_LT(distance(10), 25);
  EXPECT_GT(distance(500), 200);
}

TEST(Stream, HoldsNoMoreThanItsBufferAllows) {
  const Folder folder;
  const auto shards = std::make_shared<const ShardSet>(number_shards(folder.path(), {3000, 3000}));
  RecordStream stream(shards, {.stream = {.shuffle_samples = 100'000, .shuffle_bytes = 20'000}, .seed = 1});
  stream.begin_epoch(0);
  const std::atomic<bool> stop = false;
  RecordStream::Journal journal;
  PackedRecord record;
  RecordRef ref;
  std::int64_t most = 0, count = 0;
  stream.mark(journal);
  while (stream.next(record, ref, journal, stop)) {
    most = std::max(most, stream.held_bytes());
    ++count;
    stream.mark(journal);
  }
  EXPECT_EQ(count, 6000);
  EXPECT_GT(most, 20'000 / 2);
  EXPECT_LE(most, 20'000 + 20'000 / 4 + 2 * 128);
}

TEST(Stream, RefusesAStateOfOtherShardsSeedOrRanksAndGoesOnAsBefore) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), kSizes);
  const StreamOptions stream{.shuffle_samples = 16, .interleave = 3};
  Loader loader(shards, stream, {.batch = 10, .seed = 5});
  take(loader, 3);
  const auto state = loader.state();
  const auto rest = take(loader, 6);
  loader.restore(state);
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json other = state;
    other["stream"]["identity"][key] = value;
    return error_of([&] { loader.restore(other); });
  };
  EXPECT_EQ(refused("seed", 6), "[stream] expected to resume with seed 6 of the saved state, got 5");
  EXPECT_TRUE(refused("shards", "x").starts_with("[stream] expected to resume with shards \"x\""));
  EXPECT_NE(refused("ranks", 2), "none");
  EXPECT_NE(refused("shuffle_samples", 17), "none");
  for (const auto& [path, value] : std::vector<std::pair<const char*, nlohmann::json>>{{"/stream/buffer/0", 99},
                                                                                       {"/stream/buffer/1", 3},
                                                                                       {"/stream/buffer/0", "x"},
                                                                                       {"/stream/walk/next_shard", 99},
                                                                                       {"/stream/walk/open/0/0", -1},
                                                                                       {"/stream/emitted", 10'000},
                                                                                       {"/stream", nullptr},
                                                                                       {"/epoch", nullptr}}) {
    nlohmann::json other = state;
    other[nlohmann::json::json_pointer(path)] = value;
    EXPECT_NE(error_of([&] { loader.restore(other); }), "none") << path;
  }
  EXPECT_EQ(take(loader, 6), rest);
}

TEST(Stream, NamesTheRecordThatCannotBeDecoded) {
  const Folder folder;
  for (const int workers : {1, 3}) {
    Loader loader(number_shards(folder.path(), {20, 30}, 23), {}, {.batch = 10, .shuffle = false, .workers = workers});
    EXPECT_EQ(take(loader, 2), counted(20));
    // Preceded by three records of 12 bytes with fillers of 20, 21 and 22.
    EXPECT_EQ(
        error_of([&] { loader.next(); }),
        fmt::format("[loader] sample 23 of epoch 0 (shard {} at offset 99): [numbers] expected a picture, got a cat",
                    (folder.path() / "shard-1").string()));
  }
}

TEST(Stream, NamesTheShardThatVanishedInTheMiddleOfAnEpoch) {
  const Folder folder;
  Loader loader(number_shards(folder.path(), {20, 30}), {}, {.batch = 4, .shuffle = false, .prefetch = 1});
  EXPECT_EQ(take(loader, 1), counted(4));
  const auto bytes = std::filesystem::file_size(folder.path() / "shard-1");
  std::filesystem::remove(folder.path() / "shard-1");
  const std::string error = error_of([&] { take(loader, 20); });
  EXPECT_EQ(error,
            fmt::format("[stream] expected shard {} to stay as it was with {} bytes, got No such file or directory",
                        (folder.path() / "shard-1").string(), bytes));
  EXPECT_EQ(loader.position(), (DataPosition{0, 20}));  // every good sample was handed out
}

TEST(Stream, NamesTheShardAndOffsetWhereItWasCutShort) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {400});
  Loader loader(shards, {}, {.batch = 4, .shuffle = false, .prefetch = 1});
  EXPECT_EQ(take(loader, 1), counted(4));
  const auto bytes = std::filesystem::file_size(shards.files[0]);
  std::filesystem::resize_file(shards.files[0], 3000);
  const std::string error = error_of([&] { take(loader, 200); });
  EXPECT_TRUE(error.starts_with(fmt::format("[stream] shard {} at offset 29", shards.files[0].string()))) << error;
  EXPECT_TRUE(error.find("[numbers]") != std::string::npos) << error;
  EXPECT_TRUE(error.ends_with(fmt::format("(the shard had {} bytes when it was opened)", bytes))) << error;
}

TEST(Stream, NamesTheShardThatWasCutBetweenRecords) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {10});
  Loader loader(shards, {}, {.batch = 1, .shuffle = false, .prefetch = 1});
  EXPECT_EQ(take(loader, 1), counted(1));
  std::filesystem::resize_file(shards.files[0], 12 * 7 + 21);
  const std::string error = error_of([&] { take(loader, 20); });
  EXPECT_EQ(error, fmt::format("[stream] shard {} at offset 105: [stream] expected shard {} to stay as it was with 165 "
                               "bytes, got 105 bytes (the shard had 165 bytes when it was opened)",
                               shards.files[0].string(), shards.files[0].string()));
}

TEST(Stream, SavesAGoodStateAfterAnErrorAndGoesOnOnceItIsMended) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {40, 40});
  const StreamOptions stream{.shuffle_samples = 8, .interleave = 2};
  Loader good(shards, stream, {.batch = 5, .seed = 3});
  const auto expected = take_epoch(good);
  Loader loader(shards, stream, {.batch = 5, .seed = 3, .prefetch = 3});
  std::filesystem::copy(shards.files[1], folder.path() / "kept");
  std::vector<std::int64_t> seen = take(loader, 1);
  std::filesystem::resize_file(shards.files[1], 700);
  while (error_of([&] {
           const auto part = take(loader, 1);
           seen.insert(seen.end(), part.begin(), part.end());
         }) == "none") {
  }
  EXPECT_LT(seen.size(), expected.size());
  const auto state = loader.state();
  std::filesystem::copy(folder.path() / "kept", shards.files[1], std::filesystem::copy_options::overwrite_existing);
  Loader mended(shards, stream, {.batch = 5, .seed = 3});
  mended.restore(state);
  const auto rest = take_epoch(mended);
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_EQ(seen, expected);
}

TEST(Stream, CanBeRestoredAfterAFailedRollback) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {1});
  std::string text;
  // Three records that each fill the buffer alone, then small ones that do so together.
  for (int i = 0; i < 8; ++i) testing::append_number(text, i, i < 3 ? 9000 : 0);
  testing::write_text(shards.files[0], text + "cut");
  Loader loader(shards, {.shuffle_samples = 8, .shuffle_bytes = 4000}, {.batch = 1, .seed = 3, .prefetch = 2});
  const auto state = loader.state();
  EXPECT_EQ(take(loader, 3), counted(3));
  EXPECT_NE(error_of([&] { loader.next(); }), "none");
  std::filesystem::rename(shards.files[0], folder.path() / "kept");
  EXPECT_NE(error_of([&] { loader.seek({-1, 0}); }), "none");
  EXPECT_NE(error_of([&] { loader.next(); }), "none");
  EXPECT_EQ(loader.state().at("stream").at("buffer").size(), 0U);
  std::filesystem::rename(folder.path() / "kept", shards.files[0]);
  loader.restore(state);
  EXPECT_EQ(take(loader, 3), counted(3));
}

TEST(Stream, RefusesAnEpochWithoutABatch) {
  const Folder folder;
  Loader empty(number_shards(folder.path(), {0, 0}), {}, {.batch = 2});
  EXPECT_EQ(error_of([&] { empty.next(); }), "[loader] expected at least 1 samples in the shards, got 0");
  Loader dropped(number_shards(folder.path(), {0, 3, 0}), {}, {.batch = 4, .drop_last = true});
  EXPECT_EQ(error_of([&] { dropped.next(); }), "[loader] expected at least 4 samples in the shards, got 3");
}

TEST(Stream, RefusesShardsThatAreNotThere) {
  const Folder folder;
  auto shards = number_shards(folder.path(), {4});
  shards.files.push_back(folder.path() / "none");
  EXPECT_NE(error_of([&] { Loader(shards, {}, {.batch = 1}); }), "none");
  shards.files.clear();
  EXPECT_EQ(error_of([&] { Loader(shards, {}, {.batch = 1}); }), "[stream] expected at least one shard, got none");
}

TEST(PackedRecord, KeepsKeysNamesAndBytes) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  const auto bytes = as_bytes(text);
  Record record{.key = "a/0001"};
  record.parts.push_back({"jpg", bytes.first(3)});
  record.parts.push_back({"", {}});
  record.parts.push_back({"a long name of a part.json", bytes});
  const auto pool = std::make_shared<RecordPool>(1 << 20);
  PackedRecord packed = pool->pack(record);
  const PackedRecord moved = std::move(packed);
  Record back{.key = "old", .parts = {{"x", {}}}};
  moved.unpack(back);
  EXPECT_EQ(back.key, record.key);
  ASSERT_EQ(back.parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.parts[i].name, record.parts[i].name);
    EXPECT_TRUE(std::equal(back.parts[i].bytes.begin(), back.parts[i].bytes.end(), record.parts[i].bytes.begin(),
                           record.parts[i].bytes.end()));
  }
}

TEST(PackedRecord, ReusesTheMemoryOfReleasedRecords) {
  const std::vector<std::byte> bytes(1000);
  Record record;
  record.parts.push_back({"", bytes});
  const auto pool = std::make_shared<RecordPool>(4096);
  const auto one = pool->pack(record).held_bytes();
  EXPECT_GE(one, 1000);
  EXPECT_LE(one, 1280);
  EXPECT_EQ(pool->held_bytes(), one);  // idle
  std::vector<PackedRecord> many;
  for (int i = 0; i < 10; ++i) many.push_back(pool->pack(record));
  EXPECT_EQ(pool->held_bytes(), 10 * one);
  many.clear();
  EXPECT_LE(pool->held_bytes(), 4096);
}

}  // namespace
}  // namespace starling::data
