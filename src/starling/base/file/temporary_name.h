#pragma once

#include <string>
#include <string_view>

namespace starling {

// Suffix of the name under which this process writes a file or folder before it gets its final name:
// ".tmp-<place>-<process>-<serial>", another one with every call. The place stands for the host since it was started
// and for the container in it, so that a process number is only looked up where it means something.
std::string temporary_suffix();

// The writer of a file or folder, as its name tells.
enum class Writer {
  nobody,     // the name is not that of `final_name` with such a suffix
  alive,      // a process of this place that lives
  dead,       // one of this place that does not
  elsewhere,  // one of another place, or from before this host was started again: unknown here
};
Writer writer_of(std::string_view name, std::string_view final_name);

}  // namespace starling
