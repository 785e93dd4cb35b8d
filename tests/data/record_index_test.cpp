#include "starling/data/records/record_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "data/stream_testing.h"
#include "starling/data/formats/tfrecord.h"
#include "starling/data/loading/sampler.h"
#include "starling/data/records/indexed_records.h"

namespace starling::data {
namespace {

using testing::append_number;
using testing::error_of;
using testing::Folder;
using testing::number_shards;
using testing::take;
using testing::take_epoch;
using testing::write_text;

std::vector<std::int64_t> numbers_of(const IndexedRecords& data, const std::vector<std::int64_t>& rows) {
  const TensorList out = {empty({static_cast<std::int64_t>(rows.size())}, DType::i64)};
  data.gather(rows, {out.data(), out.size()});
  const auto* values = out[0].data<std::int64_t>();
  return {values, values + rows.size()};
}

std::string file_text(const std::filesystem::path& path) { return read_file(path, 1 << 20).value(); }

TEST(RecordIndex, MakesShardsADataSetByNumber) {
  const Folder folder;
  const IndexedRecords data(number_shards(folder.path(), {20, 0, 13, 1, 66}));
  EXPECT_EQ(data.size(), 100);
  EXPECT_EQ(data.indexes_built(), 5);
  EXPECT_EQ(to_string(data.fields()[0]), "i64[]");
  EXPECT_EQ(numbers_of(data, {99, 0, 19, 20, 32, 33, 34, 34, 35}),
            (std::vector<std::int64_t>{99, 0, 19, 20, 32, 33, 34, 34, 35}));
  EXPECT_THROW(numbers_of(data, {100}), Error);
  EXPECT_THROW(numbers_of(data, {-1}), Error);
}

TEST(RecordIndex, HoldsNoShardOpenWhereNoneMayBe) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {5, 4});
  const IndexedRecords data(shards, {.most_open = 0});
  EXPECT_EQ(numbers_of(data, {8, 0, 1, 2}), (std::vector<std::int64_t>{8, 0, 1, 2}));
  EXPECT_THROW(IndexedRecords(shards, {.most_open = -1}), Error);
}

TEST(RecordIndex, GivesTheSameOrderAsAnyOtherDataSet) {
  const Folder folder;
  const auto data = std::make_shared<IndexedRecords>(number_shards(folder.path(), {40, 40, 23}));
  std::vector<std::int64_t> expected;
  const EpochOrder order({.size = 103, .seed = 9, .epoch = 1});
  for (std::int64_t i = 0; i < 103; ++i) expected.push_back(order.sample_at(i));
  for (const int workers : {1, 2, 5}) {
    Loader loader(data, {.batch = 16, .seed = 9, .workers = workers, .start = {1, 0}});
    EXPECT_EQ(take_epoch(loader), expected);
    loader.seek({1, 50});
    EXPECT_EQ(take_epoch(loader), std::vector<std::int64_t>(expected.begin() + 50, expected.end()));
  }
}

TEST(RecordIndex, IsBuiltOnceAndKeptWhereAsked) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {20, 13});
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 2);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "shard-0.index"));
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 0);
  std::filesystem::create_directory(folder.path() / "elsewhere");
  EXPECT_EQ(IndexedRecords(shards, {.index_folder = folder.path() / "elsewhere"}).indexes_built(), 2);
  EXPECT_EQ(IndexedRecords(shards, {.index_folder = folder.path() / "elsewhere"}).indexes_built(), 0);
  const auto files = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_EQ(files, 5);  // two shards, two indexes, a folder: no temporary files
}

TEST(RecordIndex, IsBuiltAgainWhenTheShardHasChanged) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {20, 13});
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 2);
  std::string text = file_text(shards.files[1]);
  append_number(text, 77, 3);
  write_text(shards.files[1], text);
  const IndexedRecords grown(shards);
  EXPECT_EQ(grown.indexes_built(), 1);
  EXPECT_EQ(grown.size(), 34);
  EXPECT_EQ(numbers_of(grown, {33}), std::vector<std::int64_t>{77});
  // Same size, another modification time.
  const auto time = std::filesystem::last_write_time(shards.files[0]);
  std::filesystem::last_write_time(shards.files[0], time + std::chrono::nanoseconds(1000));
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 1);
}

TEST(RecordIndex, IsBuiltAgainWhenItIsDamaged) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {20});
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 1);
  const auto path = folder.path() / "shard-0.index";
  const std::string good = file_text(path);
  EXPECT_EQ(good.size(), 20 * 8 + 64U);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_text(path, bad);
    const IndexedRecords data(shards);
    ASSERT_EQ(data.indexes_built(), 1) << at;
    ASSERT_EQ(data.size(), 20) << at;
  }
  for (const std::size_t length : {0, 1, 63, 64, 65, 223}) {
    write_text(path, good.substr(0, length));
    ASSERT_EQ(IndexedRecords(shards).indexes_built(), 1) << length;
  }
  write_text(path, good + "12345678");
  EXPECT_EQ(IndexedRecords(shards).indexes_built(), 1);
  EXPECT_EQ(file_text(path), good);
}

TEST(RecordIndex, NamesTheShardAndOffsetOfARecordThatIsCutShort) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {200});
  const auto data = std::make_shared<IndexedRecords>(shards);
  const auto place = data->place(150);
  std::filesystem::resize_file(shards.files[0], place.offset + 5);
  EXPECT_NE(error_of([&] { numbers_of(*data, {3}); }).find("to stay as it was"), std::string::npos);
  Loader loader(data, {.batch = 20, .shuffle = false});
  const std::string error = error_of([&] { take(loader, 1); });
  EXPECT_TRUE(error.starts_with("[loader] sample 0 (position 0 of epoch 0): [stream] expected shard")) << error;
}

class Bytes final : public RecordDecoder {
 public:
  std::vector<TensorType> fields() const override { return {{DType::u8, {}}}; }
  void decode(const Record& record, const std::string&, std::span<const Tensor> out) const override {
    *out[0].data<std::uint8_t>() = static_cast<std::uint8_t>(record.parts[0].bytes[0]);
  }
};

TEST(RecordIndex, ReadersOfTfRecordsGoWhereTheNextRecordLies) {
  const Folder folder;
  std::string file;
  for (int i = 0; i < 50; ++i) {
    const std::string record(static_cast<std::size_t>(1 + i * 331), static_cast<char>(i));
    append_tfrecord(file, std::as_bytes(std::span(record)));
  }
  write_text(folder.path() / "a.tfrecord", file);
  int opened = 0;
  const auto open = [&](const std::filesystem::path& path, std::uint64_t offset) {
    ++opened;
    return open_tfrecord(path, offset, {});
  };
  const IndexedRecords data(RecordShards{{folder.path() / "a.tfrecord"}, open, std::make_shared<Bytes>()});
  opened = 0;
  const TensorList out = {empty({1}, DType::u8)};
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t row = i * 37 % 50;
    data.gather({&row, 1}, {out.data(), out.size()});
    ASSERT_EQ(out[0].item(), static_cast<double>(row));
  }
  EXPECT_EQ(opened, 1);
}

TEST(RecordIndex, RefusesADamagedShardAndLeavesNoIndex) {
  const Folder folder;
  const auto shards = number_shards(folder.path(), {20});
  std::filesystem::resize_file(shards.files[0], 200);
  EXPECT_NE(error_of([&] { IndexedRecords data(shards); }).find("[numbers]"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace starling::data
