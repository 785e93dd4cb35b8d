#pragma once

#include <bit>

namespace starling::dist {

// ReduceBuffers of any number of ranks to a power of two of cores: the first 2·extras ranks are pairs of a core and the
// extra that folds into it, so that cores keep the order of ranks and each stands for neighbours.
struct Fold {
  explicit Fold(int size)
      : size(size), cores(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extras(size - cores) {}

  int core_of(int index) const {  // -1: an extra
    if (index >= 2 * extras) return index - extras;
    return index % 2 == 0 ? index / 2 : -1;
  }
  int index_of(int core) const { return core < extras ? 2 * core : core + extras; }
  bool has_extra(int core) const { return core < extras; }

  int size, cores, extras;
};

}  // namespace starling::dist
