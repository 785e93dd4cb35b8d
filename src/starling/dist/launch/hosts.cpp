#include "starling/dist/launch/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace starling::dist {
namespace {

constexpr int kMostSlots = 4096;

Result<int> parse_slots(std::string_view word) {
  constexpr std::string_view key = "slots=";
  int slots = 0;
  if (word.starts_with(key)) {
    word.remove_prefix(key.size());
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), slots);
    if (error != std::errc{} || end != word.data() + word.size()) slots = 0;
  }
  if (slots < 1 || slots > kMostSlots) return failure("expected slots=1 to slots={}", kMostSlots);
  return slots;
}

// Valid host name. It becomes an argument of ssh, so nothing that could be taken for an option or more is allowed.
bool is_host(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == '@' || c == ':';
  };
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), plain);
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text, std::string_view file) {
  std::vector<HostSlots> hosts;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    HostSlots host;
    if (!(words >> host.host)) continue;
    if (!is_host(host.host)) return failure("{}:{}: expected the name of a host, got '{}'", file, number, host.host);
    if (std::string word; words >> word) {
      const auto slots = parse_slots(word);
      if (!slots) return failure("{}:{}: {} after the host, got '{}'", file, number, slots.error(), word);
      host.slots = *slots;
    }
    if (std::string more; words >> more)
      return failure("{}:{}: expected `host slots=k`, got '{}' after it", file, number, more);
    const auto same = [&](const HostSlots& other) { return other.host == host.host; };
    if (std::any_of(hosts.begin(), hosts.end(), same))
      return failure("{}:{}: expected every host once, got '{}' again", file, number, host.host);
    hosts.push_back(host);
  }
  if (hosts.empty()) return failure("{}: expected lines `host slots=k`, got none", file);
  return hosts;
}

Result<std::vector<RankSlot>> assign_ranks(int ranks, const std::vector<HostSlots>& hosts) {
  std::vector<RankSlot> assigned;
  int slots = 0;
  for (const auto& [host, count] : hosts) {
    slots += count;
    const int here = std::min(count, ranks - static_cast<int>(assigned.size()));
    for (int i = 0; i < here; ++i)
      assigned.push_back({static_cast<int>(assigned.size()), host, !is_this_host(host), i, here});
  }
  if (static_cast<int>(assigned.size()) < ranks)
    return failure("expected slots for {} ranks on the hosts, got {} on {}", ranks, slots, hosts.size());
  return assigned;
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

bool is_this_host(std::string_view name) {
  const std::string own = host_name();
  return name.empty() || name == "localhost" || name == "::1" || name.starts_with("127.") || name == own ||
         name == own.substr(0, own.find('.'));
}

}  // namespace starling::dist
