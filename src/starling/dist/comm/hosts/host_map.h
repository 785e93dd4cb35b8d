#pragma once

#include <vector>

namespace starling::dist {

// Hosts of a world's ranks, as one of them sees it.
class HostMap {
 public:
  // host_of: by world rank, hosts numbered from 0 without gaps; else throws Error.
  HostMap(std::vector<int> host_of, int rank);

  int hosts() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& host_of() const { return host_of_; }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int host() const { return host_of(rank_); }
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  int local_rank(int rank) const;  // rank among the ranks of its host
  int local_rank() const { return local_rank(rank_); }
  int local_world() const { return static_cast<int>(ranks_of(host()).size()); }
  bool leads() const { return local_rank() == 0; }
  bool even() const;  // true if all hosts have equally many ranks

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;  // by host, in order
  int rank_;
};

}  // namespace starling::dist
