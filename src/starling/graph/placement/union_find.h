#pragma once

#include <numeric>
#include <vector>

namespace starling::graph {

// Disjoint sets of integers (union-find).
class UnionFind {
 public:
  explicit UnionFind(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }

  int find(int x) {
    while (parent_[static_cast<std::size_t>(x)] != x) {
      int& up = parent_[static_cast<std::size_t>(x)];
      up = parent_[static_cast<std::size_t>(up)];
      x = up;
    }
    return x;
  }
  // The smaller root becomes the root of both.
  int join(int a, int b) {
    a = find(a);
    b = find(b);
    if (a > b) std::swap(a, b);
    parent_[static_cast<std::size_t>(b)] = a;
    return a;
  }

 private:
  std::vector<int> parent_;
};

}  // namespace starling::graph
