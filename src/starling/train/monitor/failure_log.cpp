#include "starling/train/monitor/failure_log.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/train/monitor/append_file.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/run/run_lock.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

std::string line_of(const ordered_json& event) {
  return event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

bool lacks_reason(const ordered_json& event) {
  const auto is = [&](const char* key, const char* word) {
    const auto found = event.find(key);
    return found != event.end() && *found == word;
  };
  return is("event", "end") && is("how", "failed") && !event.contains("why");
}

// Bytes of the log without its torn last line and, if `one_less`, without its last whole one.
std::uint64_t bytes_to_keep(const fs::path& file, bool one_less) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto after_line = [&](std::size_t before) -> std::size_t {
    const std::size_t end = before == 0 ? std::string::npos : text.rfind('\n', before - 1);
    return end == std::string::npos ? 0 : end + 1;
  };
  const std::size_t whole = after_line(text.size());
  return one_less && whole > 0 ? after_line(whole - 1) : whole;
}

}  // namespace

Result<void> log_failure(const fs::path& run, std::string_view why) {
  if (RunLock::held_by_other(run)) return {};
  const fs::path file = run / kLogName;
  ordered_json end = {{"event", "end"}, {"step", 0}, {"epoch", 0.0}, {"seconds", 0.0}};
  bool replaces = false;
  if (const auto events = read_run_events(run); events && !events->empty()) {
    const ordered_json& last = events->back();
    for (const char* when : {"step", "epoch", "seconds"}) {
      if (last.contains(when)) end[when] = last.at(when);
    }
    replaces = lacks_reason(last);
  }
  end["time"] = unix_seconds();
  end["how"] = "failed";
  end["why"] = why;
  auto log = AppendFile::open(file, bytes_to_keep(file, replaces));
  if (!log) return log.failure();
  return log->append(line_of(end));
}

}  // namespace starling::train
