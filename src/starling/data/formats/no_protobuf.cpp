#include "starling/base/error.h"
#include "starling/data/formats/example.h"

namespace starling::data {
namespace {

[[noreturn]] void refuse() {
  fail("[tfrecord] expected a build with protobuf (libprotobuf-dev, protobuf-compiler), got one without");
}

}  // namespace

bool has_example() { return false; }

Example parse_example(std::span<const std::byte>, const std::string&) { refuse(); }

std::string format_example(const Example&) { refuse(); }

}  // namespace starling::data
