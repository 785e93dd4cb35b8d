#include "starling/dist/health/flight_recorder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "starling/base/file/file.h"
#include "starling/dist/launch/hosts.h"

namespace starling::dist {
namespace {

// Strips the journal's dump from a communicator's error text: the record has its own section for it.
std::string_view without_dump(std::string_view reason) {
  const auto dump = reason.find("\nlast operations of rank ");
  return reason.substr(0, dump);
}

std::string costs(const Journal& journal) {
  std::string text;
  for (int i = 0; i < kCommOpCount; ++i) {
    const auto op = static_cast<CommOp>(i);
    const OpCounters c = journal.counters(op);
    if (c.calls == 0) continue;
    text += fmt::format("  {}: {} calls, {} bytes sent, {} received, {:.3f} s waited\n", name(op), c.calls,
                        c.bytes_sent, c.bytes_received, static_cast<double>(c.wait_ns) * 1e-9);
  }
  return text;
}

std::string section(std::string_view title, std::string_view lines) {
  return fmt::format("{}:\n{}", title, lines.empty() ? "  nothing\n" : lines);
}

}  // namespace

std::string flight_record(const Comm& comm, std::string_view reason) {
  const CommGroup& group = comm.group();
  std::string text = fmt::format("rank {} of {}, group '{}', epoch {}, backend {}, host {}, process {}, {:%F %T} UTC\n",
                                 group.rank, group.size, group.label, group.epoch, comm.capabilities().backend,
                                 host_name(), ::getpid(), fmt::gmtime(std::time(nullptr)));
  text += fmt::format("why: {}\n", without_dump(reason));
  text += section("waiting for", comm.journal().waiting());
  text += section("last operations", comm.journal().dump());
  text += section("so far", costs(comm.journal()));
  return text;
}

Result<std::filesystem::path> write_flight_record(const Comm& comm, const std::filesystem::path& folder,
                                                  std::string_view reason) {
  const std::filesystem::path path = folder / "failures" / fmt::format("rank{}.txt", comm.rank());
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return failure("[flight recorder] cannot make {}: {}", path.parent_path().string(), error.message());
  if (auto written = write_file_atomically(path, flight_record(comm, reason)); !written) return written.failure();
  return path;
}

}  // namespace starling::dist
