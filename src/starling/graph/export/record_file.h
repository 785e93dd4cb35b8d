#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

// Records as TensorBoard's event files hold them: length and bytes, each followed by its masked CRC-32C.
std::string framed_record(std::string_view data);

// The records of such a file; throws naming the record whose length or checksum is wrong.
std::vector<std::string> read_records(std::string_view file);

}  // namespace starling
