#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "starling/base/result.h"
#include "starling/dist/comm/comm.h"

namespace starling {

// What this rank's flight recorder holds, as text: who it is (rank, group, backend, host, process), why it is written,
// what it is still waiting for and since when, its last operations, and what each kind of operation has cost.
std::string flight_record(const Comm& comm, std::string_view reason);

// Writes it to <folder>/failures/rank3.txt (of the run's folder; made when it is not there), replacing an older one,
// and returns the path.
Result<std::filesystem::path> write_flight_record(const Comm& comm, const std::filesystem::path& folder,
                                                  std::string_view reason);

// Runs body(); when that throws, this rank's record is written before the error goes on. What cannot be written does
// not hide the error.
template <class Body>
decltype(auto) with_flight_record(const Comm& comm, const std::filesystem::path& folder, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    (void)write_flight_record(comm, folder, error.what());
    throw;
  } catch (...) {
    (void)write_flight_record(comm, folder, "an exception that is no std::exception");
    throw;
  }
}

}  // namespace starling
