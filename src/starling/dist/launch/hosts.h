#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"

namespace starling {

// A host and how many ranks it takes.
struct HostSlots {
  std::string host;
  int slots = 1;
};

// One host a line, `name` or `name slots=4`; empty lines and what follows a # do not count. A line that is something
// else, a host named twice and a list without hosts are failures that name the line.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text, std::string_view file);

// Where a rank runs.
struct Seat {
  int rank = 0;
  std::string host{};
  bool remote = false;
  int local_rank = 0;
  int local_world = 1;
};

// Ranks in the order of the hosts, as many as asked for; fails when there are not that many slots.
Result<std::vector<Seat>> seat_ranks(int ranks, const std::vector<HostSlots>& hosts);

std::string host_name();
// Whether the name stands for the host of this process.
bool is_this_host(std::string_view name);

}  // namespace starling
