#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::graph {

// Record in the format of TensorBoard's event files: length and bytes, each followed by its masked CRC-32C.
std::string framed_record(std::string_view data);

// Records of such a file; throws naming the record with a wrong length or checksum.
std::vector<std::string> read_records(std::string_view file);

}  // namespace starling::graph
