#include "starling/base/file/temporary_name.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>

#include "starling/base/file/file.h"

namespace starling {
namespace {

constexpr std::size_t kPlaceDigits = 8;

// Host, its last start, and the space in which its process numbers count.
std::string place_of_this_process() {
  std::array<char, 64> space{};
  const ssize_t read = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  Hash128 hash;
  hash.update(std::string_view(space.data(), read > 0 ? static_cast<std::size_t>(read) : 0));
  if (const auto boot = read_file("/proc/sys/kernel/random/boot_id", 64)) hash.update(*boot);
  return hash.hex().substr(0, kPlaceDigits);
}

const std::string& place() {
  static const std::string text = place_of_this_process();
  return text;
}

}  // namespace

std::string temporary_suffix() {
  static std::atomic<unsigned> serial{0};
  return fmt::format(".tmp-{}-{}-{}", place(), ::getpid(), serial++);
}

Writer writer_of(std::string_view name, std::string_view final_name) {
  const std::string begin = fmt::format("{}.tmp-", final_name);
  if (!name.starts_with(begin)) return Writer::nobody;
  name.remove_prefix(begin.size());
  if (!name.starts_with(place() + "-")) return Writer::elsewhere;
  name.remove_prefix(place().size() + 1);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '-' || process <= 0) return Writer::elsewhere;
  return ::kill(process, 0) != 0 && errno == ESRCH ? Writer::dead : Writer::alive;
}

}  // namespace starling
