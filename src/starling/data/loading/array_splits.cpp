#include "starling/data/loading/array_splits.h"

#include "starling/base/error.h"

namespace starling::data {

void count_classes(std::int64_t lowest, std::int64_t highest, std::string_view who, std::int64_t& classes) {
  check(classes == 0 || (lowest >= 0 && highest < classes),
        "{} expected labels of 0 to {}, got {} to {} (number them from 0, or leave classes out)", who, classes - 1,
        lowest, highest);
  if (classes == 0 && lowest >= 0) classes = highest + 1;
}

void describe_arrays(DataSplits& splits, const std::vector<std::string>& class_names, std::string_view who) {
  check(class_names.empty() || std::ssize(class_names) == splits.classes,
        "{} expected a name for each of the {} classes, got {} (list them all in class_names, or leave it out)", who,
        splits.classes, class_names.size());
  splits.class_names = class_names;
  const TensorType sample = splits.train->fields().front();
  splits.raw = {{"kind", "array"}, {"dtype", std::string(name(sample.dtype))}, {"shape", nlohmann::json::array()}};
  for (const auto size : sample.shape) splits.raw["shape"].push_back(size);
}

}  // namespace starling::data
