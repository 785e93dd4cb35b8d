#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "starling/base/file/file.h"
#include "starling/dist/launch/connect.h"
#include "starling/dist/launch/hosts.h"

namespace starling::dist {
namespace {

std::string first_line(const char* file) {
  const auto text = read_file(std::filesystem::path(file), 4096);
  return text ? text->substr(0, text->find('\n')) : "";
}

std::string link_text(const char* file) {
  std::error_code error;
  return std::filesystem::read_symlink(file, error).string();
}

}  // namespace

std::string host_identity(const Variables& variables) {
  if (const auto played = variables("STARLING_HOST")) return *played;
  return fmt::format("{} {} {} {}", first_line("/proc/sys/kernel/random/boot_id"), host_name(), ::getuid(),
                     link_text("/proc/self/ns/pid"));
}

std::vector<int> number_hosts(const std::vector<std::string>& identities) {
  std::vector<int> host_of;
  std::vector<std::string> known;
  for (const auto& identity : identities) {
    const auto at = std::find(known.begin(), known.end(), identity);
    host_of.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(identity);
  }
  return host_of;
}

HostMap exchange_hosts(const RankInfo& info, Store& store, const std::string& identity,
                       std::chrono::milliseconds deadline) {
  store.set(fmt::format("host/{}", info.rank), identity);
  const auto end = std::chrono::steady_clock::now() + deadline;
  const auto left = [&] {
    return std::max(std::chrono::milliseconds(1),
                    std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()));
  };
  if (info.rank != 0) {
    std::istringstream numbers(store.get("hosts", left()));  // rank 0 gathers, so that every rank asks once
    return {{std::istream_iterator<int>(numbers), {}}, info.rank};
  }
  std::vector<std::string> identities;
  for (int rank = 0; rank < info.world; ++rank) identities.push_back(store.get(fmt::format("host/{}", rank), left()));
  HostMap map(number_hosts(identities), info.rank);
  store.set("hosts", fmt::format("{}", fmt::join(map.host_of(), " ")));
  return map;
}

}  // namespace starling::dist
