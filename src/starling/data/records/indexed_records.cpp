#include "starling/data/records/indexed_records.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/records/seekable_reader.h"

namespace starling::data {
namespace {

void expect_plain(const std::filesystem::path& shard) {
  std::array<char, 2> begin{};
  std::ifstream(shard, std::ios::binary).read(begin.data(), begin.size());
  check(begin != std::array{'\x1f', '\x8b'},
        "[records] expected shards that are not compressed to take samples by number, got {}", shard.string());
}

}  // namespace

// Cache of open shard readers, least recently used first.
class IndexedRecords::Readers {
 public:
  struct Reader {
    std::int64_t shard = -1;
    std::unique_ptr<RecordReader> reader;
  };
  explicit Readers(int most) : most_(static_cast<std::size_t>(most)) {
    check(most >= 0, "[records] expected at least 0 shards held open, got {}", most);
  }

  // A reader at exactly `ref`, or one of that shard that can seek there; empty if there is none.
  Reader take(const RecordRef& ref) {
    Reader taken = one_of(ref);
    if (!taken.reader || taken.reader->offset() == ref.offset) return taken;
    auto* seekable = dynamic_cast<SeekableReader*>(taken.reader.get());
    return seekable && seekable->go_to(ref.offset) ? std::move(taken) : Reader{};
  }
  void give_back(Reader reader) {
    if (most_ == 0) return;
    std::scoped_lock lock(mutex_);
    if (idle_.size() >= most_) idle_.erase(idle_.begin());
    idle_.push_back(std::move(reader));
  }

 private:
  Reader one_of(const RecordRef& ref) {
    std::scoped_lock lock(mutex_);
    auto found = idle_.end();
    for (auto one = idle_.begin(); one != idle_.end(); ++one) {
      if (one->shard != ref.shard) continue;
      found = one;
      if (one->reader->offset() == ref.offset) break;
    }
    if (found == idle_.end()) return {};
    Reader taken = std::move(*found);
    idle_.erase(found);
    return taken;
  }

  std::mutex mutex_;
  std::size_t most_;
  std::vector<Reader> idle_;
};

IndexedRecords::IndexedRecords(const RecordShards& shards, const IndexedRecordsOptions& options)
    : shards_(std::make_shared<const ShardSet>(shards)), readers_(std::make_unique<Readers>(options.most_open)) {
  first_.push_back(0);
  for (const auto& file : shards.files) {
    expect_plain(file);
    const auto folder = options.index_folder.empty() ? file.parent_path() : options.index_folder;
    indexes_.push_back(RecordIndex::open_or_build(file, folder / (file.filename().string() + ".index"), shards.open));
    first_.push_back(first_.back() + indexes_.back().records());
  }
}

IndexedRecords::~IndexedRecords() = default;

std::vector<TensorType> IndexedRecords::fields() const { return shards_->decoder().fields(); }

std::int64_t IndexedRecords::indexes_built() const {
  return std::count_if(indexes_.begin(), indexes_.end(), [](const RecordIndex& index) { return index.built(); });
}

RecordRef IndexedRecords::place(std::int64_t row) const {
  const auto shard = std::upper_bound(first_.begin(), first_.end(), row) - first_.begin() - 1;
  return {shard, indexes_[static_cast<std::size_t>(shard)].offset(row - first_[static_cast<std::size_t>(shard)])};
}

void IndexedRecords::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= size()) fail("[records] expected samples below {}, got {}", size(), rows[i]);
    TensorList sample;
    for (const auto& tensor : out) {
      Shape shape = tensor.shape(), strides = tensor.strides();
      shape.erase(0);
      strides.erase(0);
      sample.push_back(view_of(tensor, shape, strides, static_cast<std::int64_t>(i) * tensor.strides()[0]));
    }
    read(place(rows[i]), {sample.data(), sample.size()});
  }
}

void IndexedRecords::read(const RecordRef& ref, std::span<const Tensor> sample) const {
  auto from = readers_->take(ref);
  if (!from.reader) from = {ref.shard, shards_->open(ref.shard, ref.offset)};
  const Record* record = shards_->read(ref.shard, *from.reader);
  if (record == nullptr || record->offset != ref.offset) {
    fail("[records] expected a record in {}, as the index says, got none that begins there", shards_->describe(ref));
  }
  shards_->decoder().decode(*record, shards_->name(ref.shard), sample);
  readers_->give_back(std::move(from));
}

}  // namespace starling::data
