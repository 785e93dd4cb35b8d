#pragma once

#include <vector>

namespace starling::dist {

// Assignment of world ranks to hosts.
class HostsLayout {
 public:
  // host_of: by world rank, hosts numbered from 0 without gaps; else throws Error.
  HostsLayout(std::vector<int> host_of, int rank);

  int hosts() const { return static_cast<int>(ranks_.size()); }
  int host() const { return host_of(rank_); }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int local_of(int rank) const;  // rank among the ranks of its host
  int local() const { return local_of(rank_); }
  int local_size() const { return static_cast<int>(ranks_of(host()).size()); }
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  bool leads() const { return local() == 0; }
  bool even() const;  // true if all hosts have equally many ranks

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;  // by host, in order
  int rank_;
};

}  // namespace starling::dist
