#include "starling/dist/comm/hosts/host_map.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist {

HostMap::HostMap(std::vector<int> host_of, int rank) : host_of_(std::move(host_of)), rank_(rank) {
  check(rank >= 0 && rank < static_cast<int>(host_of_.size()), "[hosts] expected a rank in [0, {}), got {}",
        host_of_.size(), rank);
  for (int r = 0; r < static_cast<int>(host_of_.size()); ++r) {
    const int host = this->host_of(r);
    check(host >= 0 && host < static_cast<int>(host_of_.size()), "[hosts] expected hosts from 0, got {} for rank {}",
          host, r);
    if (host >= hosts()) ranks_.resize(static_cast<std::size_t>(host) + 1);
    ranks_[static_cast<std::size_t>(host)].push_back(r);
  }
  for (int h = 0; h < hosts(); ++h) check(!ranks_of(h).empty(), "[hosts] expected ranks on host {}, got none", h);
}

int HostMap::local_rank(int rank) const {
  const auto& ranks = ranks_of(host_of(rank));
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

bool HostMap::even() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& r) { return r.size() == ranks_[0].size(); });
}

}  // namespace starling::dist
