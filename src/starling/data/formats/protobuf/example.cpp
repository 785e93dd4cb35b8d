#include "starling/data/formats/example.h"

#include <example.pb.h>

#include <limits>

#include "starling/base/error.h"

namespace starling::data {
namespace {

template <class T, class List>
std::vector<T> values(const List& list) {
  return {list.value().begin(), list.value().end()};
}

}  // namespace

bool has_example() { return true; }

Example parse_example(std::span<const std::byte> bytes, const std::string& name) {
  records::Example message;
  const bool fits = bytes.size() <= std::size_t{std::numeric_limits<int>::max()};
  check(fits && message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
        "[tfrecord] {}: expected a tf.train.Example, got {} other bytes", name, bytes.size());
  Example example;
  for (const auto& entry : message.features().feature()) {
    const auto& key = entry.key();
    const auto& feature = entry.value();
    if (feature.has_float_list()) {
      example[key] = values<float>(feature.float_list());
    } else if (feature.has_int64_list()) {
      example[key] = values<std::int64_t>(feature.int64_list());
    } else {
      example[key] = values<std::string>(feature.bytes_list());
    }
  }
  return example;
}

std::string format_example(const Example& example) {
  records::Example message;
  for (const auto& [key, feature] : example) {
    auto& entry = *message.mutable_features()->add_feature();
    entry.set_key(key);
    auto& to = *entry.mutable_value();
    if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
      to.mutable_float_list()->mutable_value()->Add(floats->begin(), floats->end());
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&feature)) {
      to.mutable_int64_list()->mutable_value()->Add(integers->begin(), integers->end());
    } else {
      for (const auto& text : std::get<std::vector<std::string>>(feature)) to.mutable_bytes_list()->add_value(text);
    }
  }
  return message.SerializeAsString();
}

}  // namespace starling::data
