#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "starling/base/result.h"
#include "starling/dist/comm/comm.h"

namespace starling::dist {

// Flight recorder of this rank as text: identity (rank, group, backend, host, process), reason, operations still waited
// for and since when, the last operations, and the cost of each kind of operation.
std::string flight_record(const Comm& comm, std::string_view reason);

// Writes the flight record to <folder>/failures/rank3.txt in the run's folder, created if missing, replacing an older
// one, and returns the path.
Result<std::filesystem::path> write_flight_record(const Comm& comm, const std::filesystem::path& folder,
                                                  std::string_view reason);

}  // namespace starling::dist
