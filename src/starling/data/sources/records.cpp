#include <utility>

#include "starling/base/error.h"
#include "starling/data/formats/tfrecord.h"
#include "starling/data/formats/webdataset.h"
#include "starling/data/records/field_decoder.h"
#include "starling/data/records/indexed_records.h"
#include "starling/data/source.h"

namespace starling::data {
namespace {

struct RecordsOptions {
  std::vector<std::string> train{};
  std::vector<std::string> valid{};
  std::vector<std::string> test{};
  std::vector<RecordField> fields{};
  std::int64_t classes = 0;
  std::vector<std::string> class_names{};
  std::int64_t most_record = std::int64_t{256} << 20;
  std::int64_t most_unpacked = std::int64_t{64} << 30;
  bool indexed = false;
  std::filesystem::path index_folder{};
  static Settings settings() {
    return {required(setting("train", &RecordsOptions::train, "shards to train with; * stands for any letters")),
            setting("valid", &RecordsOptions::valid, "shards to validate with"),
            setting("test", &RecordsOptions::test, "shards to test with"),
            required(setting("fields", &RecordsOptions::fields, "of a sample, in order")),
            setting("classes", &RecordsOptions::classes, "of the labels; 0: labels are no classes", {.min = 0}),
            setting("class_names", &RecordsOptions::class_names, "of the classes, in order"),
            setting("most_record", &RecordsOptions::most_record, "largest record that is read, in bytes", {.min = 1}),
            setting("most_unpacked", &RecordsOptions::most_unpacked, "bytes of a gzipped shard at most", {.min = 1}),
            setting("indexed", &RecordsOptions::indexed,
                    "take samples by number, in an order over all of them, instead of streaming the shards through a "
                    "shuffle buffer; an index of each shard is built once (not of gzipped ones)"),
            setting("index_folder", &RecordsOptions::index_folder, "where the indexes lie; empty: beside the shards")};
  }
};

// Opens shards as map-style data sets by an index.
void index(std::optional<RecordShards>& shards, std::shared_ptr<const Dataset>& data, const RecordsOptions& o) {
  if (!shards) return;
  if (!o.index_folder.empty()) std::filesystem::create_directories(o.index_folder);
  data = std::make_shared<const IndexedRecords>(*shards, IndexedRecordsOptions{.index_folder = o.index_folder});
  shards.reset();
}

using OpenRecords = std::unique_ptr<RecordReader> (*)(const std::filesystem::path&, std::uint64_t, const RecordLimits&);

DataSplits make(const RecordsOptions& o, OpenRecords open, const std::shared_ptr<const RecordDecoder>& decoder) {
  check(o.class_names.empty() || std::ssize(o.class_names) == o.classes,
        "[data] expected {} names of classes, got {} (classes and class_names must agree)", o.classes,
        o.class_names.size());
  const RecordLimits limits{static_cast<std::uint64_t>(o.most_record), static_cast<std::uint64_t>(o.most_unpacked)};
  const auto shards = [&](const std::vector<std::string>& patterns) -> std::optional<RecordShards> {
    if (patterns.empty()) return std::nullopt;
    return RecordShards{
        expand_files(patterns),
        [open, limits](const std::filesystem::path& file, std::uint64_t offset) { return open(file, offset, limits); },
        decoder};
  };
  DataSplits splits;
  splits.train_shards = shards(o.train);
  splits.valid_shards = shards(o.valid);
  splits.test_shards = shards(o.test);
  check(o.indexed || o.index_folder.empty(),
        "[data] expected indexed: true with an index_folder, got false (write it, or "
        "leave index_folder out)");
  if (o.indexed) {
    index(splits.train_shards, splits.train, o);
    index(splits.valid_shards, splits.valid, o);
    index(splits.test_shards, splits.test, o);
  }
  splits.classes = o.classes;
  splits.class_names = o.class_names;
  return splits;
}

}  // namespace

void register_source_records(SourceKinds& kinds);
void register_source_records(SourceKinds& kinds) {
  kinds.add<RecordsOptions>(
      "tfrecord", "tf.train.Examples in TFRecord shards, plain or gzipped",
      [](const RecordsOptions& o) { return [o] { return make(o, open_tfrecord, example_decoder(o.fields)); }; });
  kinds.add<RecordsOptions>(
      "webdataset", "Samples in tar shards, plain or gzipped: files that share a name",
      [](const RecordsOptions& o) { return [o] { return make(o, open_webdataset, webdataset_decoder(o.fields)); }; });
}

}  // namespace starling::data
