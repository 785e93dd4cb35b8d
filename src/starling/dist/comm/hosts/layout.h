#pragma once

#include <vector>

namespace starling {

// Which ranks of a world lie on which host.
class HostsLayout {
 public:
  // By world rank, hosts from 0, all of them used; throws Error where that is not so.
  HostsLayout(std::vector<int> host_of, int rank);

  int hosts() const { return static_cast<int>(ranks_.size()); }
  int host() const { return host_of(rank_); }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int local_of(int rank) const;  // its place among the ranks of its host
  int local() const { return local_of(rank_); }
  int local_size() const { return static_cast<int>(ranks_of(host()).size()); }
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  bool leads() const { return local() == 0; }
  bool even() const;  // as many ranks on every host

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;  // by host, in order
  int rank_;
};

}  // namespace starling
