#pragma once

#include <cstdint>
#include <map>

namespace starling::dist::ps {

// Numbers of portions that were seen. They come nearly in order, so they are kept as runs of consecutive ones.
class PortionSet {
 public:
  bool contains(std::int64_t portion) const;
  bool add(std::int64_t portion);  // false: it was there
  void clear() { runs_.clear(); }
  std::size_t runs() const { return runs_.size(); }

 private:
  std::map<std::int64_t, std::int64_t> runs_;  // first number: the one behind the last
};

}  // namespace starling::dist::ps
