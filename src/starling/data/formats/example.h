#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace starling::data {

// One feature of a tf.train.Example: a list of byte strings, floats or integers.
using ExampleFeature = std::variant<std::vector<std::string>, std::vector<float>, std::vector<std::int64_t>>;
using Example = std::map<std::string, ExampleFeature>;

bool has_example();  // true if this build has protobuf

// Parses a serialized tf.train.Example; `name` stands for it in error messages. Throws on malformed bytes and in builds
// without protobuf. Memory use is at most a small multiple of the input.
Example parse_example(std::span<const std::byte> bytes, const std::string& name);
std::string format_example(const Example& example);

}  // namespace starling::data
