#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace starling {

// One feature of a tf.train.Example: texts, floats or integers, each a list.
using ExampleFeature = std::variant<std::vector<std::string>, std::vector<float>, std::vector<std::int64_t>>;
using Example = std::map<std::string, ExampleFeature>;

bool has_example();  // whether this build has protobuf

// The features of a serialized tf.train.Example; `name` stands in messages. Throws when the bytes are none, and on a
// build without protobuf. Memory is bounded by a small multiple of the bytes.
Example parse_example(std::span<const std::byte> bytes, const std::string& name);
std::string format_example(const Example& example);

}  // namespace starling
