#pragma once

#include <cstdint>
#include <string>

#include "starling/base/config/settings.h"
#include "starling/dist/codec/codec_kinds.h"

namespace starling::dist {

// Arrangement of a world's ranks: workers in groups of equal size, synchronous inside a group, by some other strategy
// between groups; and servers in groups. Worker ranks come first, group after group, then the servers.
struct Topology {
  std::int64_t worker_groups = 1;
  std::int64_t workers_per_group = 1;
  std::int64_t server_groups = 0;
  std::int64_t servers_per_group = 0;
  CodecChoice codec = {};  // of gradients inside a group of workers
  static Settings settings();

  std::int64_t workers() const { return worker_groups * workers_per_group; }
  std::int64_t servers() const { return server_groups * servers_per_group; }
  std::int64_t size() const { return workers() + servers(); }

  // Throws unless the sizes add up to `world` ranks and the groups are valid: servers in whole groups, and no more
  // server groups than worker groups, since each worker group talks to one.
  void validate(std::int64_t world) const;

  struct RankPosition {
    bool server = false;
    int group = 0;
    int member = 0;  // 0 leads the group
  };
  RankPosition position(int rank) const;
  int rank_of(const RankPosition& position) const;
  std::string describe() const;  // such as "2 groups of 3 workers"
};

}  // namespace starling::dist
