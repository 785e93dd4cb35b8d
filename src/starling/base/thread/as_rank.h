#pragma once

#include "starling/base/error.h"

namespace starling {

// Scope guard: errors thrown by this thread carry `rank` while the object lives.
class AsRank {
 public:
  explicit AsRank(int rank) : before_(thread_rank()) { set_thread_rank(rank); }
  ~AsRank() { set_thread_rank(before_); }
  AsRank(const AsRank&) = delete;
  AsRank& operator=(const AsRank&) = delete;

 private:
  int before_;
};

}  // namespace starling
