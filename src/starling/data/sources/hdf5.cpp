#include <algorithm>
#include <limits>

#include "starling/base/error.h"
#include "starling/data/datasets/hdf5_dataset.h"
#include "starling/data/loading/array_splits.h"
#include "starling/data/loading/split.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

struct Hdf5SourceOptions : SplitOptions {
  std::filesystem::path file{};
  std::vector<std::string> train{};
  std::filesystem::path test_file{};
  std::vector<std::string> test{};
  std::int64_t classes = 0;
  std::vector<std::string> class_names{};
  static Settings settings() {
    return with_splits(
        {required(setting("file", &Hdf5SourceOptions::file, "the HDF5 file")),
         required(setting("train", &Hdf5SourceOptions::train,
                          "names of arrays, a field of the samples each: [x, y], or with groups [train/x, train/y]")),
         setting("test_file", &Hdf5SourceOptions::test_file, "the file of the arrays to test with, if another one"),
         setting("test", &Hdf5SourceOptions::test, "names of arrays to test with, likewise"),
         setting("classes", &Hdf5SourceOptions::classes, "of labels; 0: what the labels show", {.min = 0}),
         setting("class_names", &Hdf5SourceOptions::class_names, "of the classes, in order")});
  }
};

using Hdf5Arrays = std::vector<std::shared_ptr<const Hdf5Array>>;

// True if an array, the last of several, has one whole number for each sample.
bool holds_labels(const Hdf5Arrays& before, std::size_t count, const TensorType& type) {
  return !before.empty() && before.size() + 1 == count && type.shape.rank() == 1 && is_integer(type.dtype);
}

// Opens arrays; whole numbers become i64, but bytes only if they are labels.
Hdf5Arrays open_arrays(const std::filesystem::path& file, const std::vector<std::string>& names) {
  Hdf5Arrays arrays;
  for (const auto& name : names) {
    auto array = open_hdf5(file, name);
    const DType dtype = array->type().dtype;
    if (is_integer(dtype) && (dtype != DType::u8 || holds_labels(arrays, names.size(), array->type())))
      array = open_hdf5(file, name, DType::i64);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// Smallest and largest label, read in slices.
std::pair<std::int64_t, std::int64_t> label_range(const Hdf5Array& labels) {
  constexpr std::int64_t kSlice = 1 << 20;
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
  const std::int64_t size = labels.type().shape[0];
  std::vector<std::int64_t> slice;
  for (std::int64_t first = 0; first < size; first += kSlice) {
    slice.resize(static_cast<std::size_t>(std::min(kSlice, size - first)));
    labels.read(first, std::ssize(slice), std::as_writable_bytes(std::span(slice)));
    const auto [least, most] = std::minmax_element(slice.begin(), slice.end());
    low = std::min(low, *least);
    high = std::max(high, *most);
  }
  return {low, high};
}

// Checks labels against the number of classes, which they show if it is 0.
void count_classes_of(const Hdf5Arrays& arrays, const std::string& file, DataSplits& splits) {
  const TensorType& type = arrays.back()->type();
  if (arrays.size() < 2 || type.dtype != DType::i64 || type.shape.rank() != 1 || type.shape[0] == 0) return;
  const auto [low, high] = label_range(*arrays.back());
  count_classes(low, high, "[hdf5] " + file + ":", splits.classes);
  splits.least_label = std::min(splits.least_label, low);
}

std::shared_ptr<const Dataset> read_part(const std::filesystem::path& file, const std::vector<std::string>& names,
                                         DataSplits& splits) {
  const auto arrays = open_arrays(file, names);
  count_classes_of(arrays, file.string(), splits);
  return std::make_shared<const Hdf5Dataset>(arrays);
}

DataSplits read_hdf5_splits(const Hdf5SourceOptions& o) {
  check(!o.train.empty(), "[hdf5] expected names of arrays in data.train, got none");
  check(o.test_file.empty() || !o.test.empty(),
        "[hdf5] expected names of arrays in data.test for data.test_file, got none");
  DataSplits splits;
  splits.classes = o.classes;
  splits.train = read_part(o.file, o.train, splits);
  if (!o.test.empty()) splits.test = read_part(o.test_file.empty() ? o.file : o.test_file, o.test, splits);
  finish_splits(splits, o);
  describe_arrays(splits, o.class_names, "[hdf5]");
  return splits;
}

}  // namespace

void register_source_hdf5(SourceKinds& kinds);
void register_source_hdf5(SourceKinds& kinds) {
  kinds.add<Hdf5SourceOptions>(
      "hdf5", "Arrays of an HDF5 file, samples along the first axis; large ones are read in slices; needs libhdf5",
      [](const Hdf5SourceOptions& o) { return [o] { return read_hdf5_splits(o); }; });
}

}  // namespace starling::data
