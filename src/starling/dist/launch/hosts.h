#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"

namespace starling::dist {

// Host and its number of rank slots.
struct HostSlots {
  std::string host;
  int slots = 1;
};

// Parses a hosts file: one host per line, `name` or `name slots=4`; empty lines and # comments are ignored. Malformed
// lines, duplicate hosts and an empty list are failures that name the line.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text, std::string_view file);

// Slot of a rank: the host it runs on.
struct RankSlot {
  int rank = 0;
  std::string host{};
  bool remote = false;
  int local_rank = 0;
  int local_world = 1;
  std::string role{};  // "worker 1"; empty: it has none but its rank
};

// Assigns ranks to slots in the order of the hosts; fails if there are too few slots.
Result<std::vector<RankSlot>> assign_ranks(int ranks, const std::vector<HostSlots>& hosts);

std::string host_name();
// True if the name refers to this process's host.
bool is_this_host(std::string_view name);

}  // namespace starling::dist
