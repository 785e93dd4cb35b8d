#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/data/formats/npy.h"
#include "starling/data/formats/safetensors.h"
#include "starling/data/loading/array_splits.h"
#include "starling/data/loading/split.h"

namespace starling::data {
namespace {

struct ArraysOptions : SplitOptions {
  std::vector<std::string> train{};
  std::vector<std::string> test{};
  double test_share = 0;
  std::int64_t classes = 0;
  std::vector<std::string> class_names{};
};

struct NpyOptionsOfSource : ArraysOptions {
  static Settings settings() {
    return with_splits(
        {required(setting("train", &ArraysOptions::train,
                          "files, a field of the samples each: x.npy, y.npy; or archive.npz:name")),
         setting("test", &ArraysOptions::test, "files to test with, likewise"),
         setting("test_share", &ArraysOptions::test_share, "share taken out of the training samples to test with",
                 {.min = 0, .max = 0.9}),
         setting("classes", &ArraysOptions::classes, "of labels; 0: what the labels of i64 show", {.min = 0}),
         setting("class_names", &ArraysOptions::class_names, "of the classes, in order")});
  }
};

struct SafetensorsOptions : ArraysOptions {
  std::filesystem::path file{};
  static Settings settings() {
    return with_splits(
        {required(setting("file", &SafetensorsOptions::file, "the safetensors file")),
         required(setting("train", &ArraysOptions::train, "names of tensors, a field of the samples each")),
         setting("test", &ArraysOptions::test, "names of tensors to test with, likewise"),
         setting("test_share", &ArraysOptions::test_share, "share taken out of the training samples to test with",
                 {.min = 0, .max = 0.9}),
         setting("classes", &ArraysOptions::classes, "of labels; 0: what the labels of i64 show", {.min = 0}),
         setting("class_names", &ArraysOptions::class_names, "of the classes, in order")});
  }
};

// Reads "x.npy" or "archive.npz:name".
Tensor read_array(const std::string& place) {
  const auto colon = place.rfind(".npz:");
  check(!place.ends_with(".npz"),
        "[npz] {}: expected one of its arrays, as {}:x, got the file alone (`starling inspect "
        "data {}` lists them)",
        place, place, place);
  if (colon == std::string::npos) return read_npy(place);
  return read_npz_array(place.substr(0, colon + 4), place.substr(colon + 5));
}

// Converts integers to i64; u8 only if they are labels.
Tensor widened(const Tensor& tensor, bool labels) {
  if (!is_integer(tensor.dtype()) || tensor.dtype() == DType::i64) return tensor;
  if (tensor.dtype() == DType::u8 && !labels) return tensor;
  Tensor wide = empty(tensor.shape(), DType::i64);
  dispatch(tensor.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      std::copy_n(tensor.data<T>(), tensor.numel(), wide.data<std::int64_t>());
    }
  });
  return wide;
}

std::shared_ptr<const Dataset> dataset(const std::vector<Tensor>& columns, std::int64_t& classes,
                                       std::int64_t& least_label) {
  std::vector<Tensor> fields;
  for (const auto& column : columns) {
    const bool labels = !fields.empty() && fields.size() + 1 == columns.size() && column.rank() == 1;
    fields.push_back(widened(column, labels));
  }
  const Tensor& labels = fields.back();
  if (fields.size() > 1 && labels.dtype() == DType::i64 && labels.rank() == 1 && labels.numel() > 0) {
    const auto* from = labels.data<std::int64_t>();
    const auto [low, high] = std::minmax_element(from, from + labels.numel());
    count_classes(*low, *high, "[data]", classes);
    least_label = std::min(least_label, *low);
  }
  return std::make_shared<const TensorDataset>(std::move(fields));
}

template <class Read>
DataSplits read_splits(const ArraysOptions& o, Read&& read) {
  const auto columns = [&](const std::vector<std::string>& names) {
    std::vector<Tensor> tensors;
    for (const auto& name : names) tensors.push_back(read(name));
    return tensors;
  };
  DataSplits splits;
  splits.classes = o.classes;
  splits.train = dataset(columns(o.train), splits.classes, splits.least_label);
  check(o.test.empty() || o.test_share == 0,
        "[data] expected test samples or a share of the training ones, got both (leave out test or test_share)");
  std::int64_t test_classes = splits.classes;
  if (!o.test.empty()) splits.test = dataset(columns(o.test), test_classes, splits.least_label);
  take_test_share(splits, o.test_share, o.split_seed);
  finish_splits(splits, o);
  describe_arrays(splits, o.class_names, "[data]");
  return splits;
}

}  // namespace

void register_source_arrays(SourceKinds& kinds);
void register_source_arrays(SourceKinds& kinds) {
  kinds.add<NpyOptionsOfSource>("npy", "Arrays of NumPy, samples along the first axis; .npy files are mapped, not read",
                                [](const NpyOptionsOfSource& o) {
                                  return [o] {
                                    return read_splits(o, [](const std::string& p) { return read_array(p); });
                                  };
                                });
  kinds.add<SafetensorsOptions>("safetensors", "Tensors of a safetensors file, samples along the first axis; mapped",
                                [](const SafetensorsOptions& o) {
                                  return [o] {
                                    const auto file = SafetensorsFile::open(o.file).value();
                                    return read_splits(o, [&](const std::string& name) { return file.tensor(name); });
                                  };
                                });
}

}  // namespace starling::data
