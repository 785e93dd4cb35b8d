#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "starling/base/small_vector.h"
#include "starling/dist/comm/fingerprint.h"
#include "starling/dist/comm/journal.h"
#include "starling/dist/comm/traffic_table.h"

namespace starling::dist {

// Contribution of one rank to an operation.
struct Post {
  Fingerprint fingerprint;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::int64_t shards = 1;
  std::int64_t color_and_key[2] = {0, 0};
  std::vector<std::int64_t> counts;

  void fill(const Call& call, const Fingerprint& print);
};

// A collective whose ranks have all arrived, cut into units that any thread may run in any order: each reads all
// sources of its range before it writes its range of the results, and no two touch the same results.
class Exchange {
 public:
  static constexpr std::int64_t kUnitBytes = 64 * 1024;

  explicit Exchange(int world);

  // Allocates only when there are more shards than ever before. least: smallest unit in bytes worth sharing out; a
  // power of two.
  void open(std::span<const Post> posts, std::int64_t least = kUnitBytes);
  std::int64_t units() const { return units_; }
  // Counts what it reads and copies. A buffer that all ranks reduce has owners, rank r of piece r: the owner reads the
  // others' copies of its piece, and the others read the result. So counts do not depend on which thread ran a unit.
  void run(std::int64_t unit, PieceTally& tally) const;

 private:
  void reduce_to_all(std::int64_t begin, std::int64_t end, PieceTally& tally) const;
  void reduce_to_owner(std::int64_t begin, std::int64_t end, PieceTally& tally) const;
  void gather(std::int64_t begin, std::int64_t end, PieceTally& tally) const;
  void through_root(std::int64_t begin, std::int64_t end, PieceTally& tally) const;
  void broadcast(std::int64_t begin, std::int64_t end, PieceTally& tally) const;
  struct Owned {
    int owner;
    std::int64_t bytes;
    bool ended;  // the piece ends in the range
  };
  SmallVector<Owned, 4> owners_of(std::int64_t begin, std::int64_t end) const;
  template <class Body>
  void for_pieces(std::int64_t begin, std::int64_t end, Body body) const;

  std::span<const Post> posts_;
  std::vector<const void*> sources_;   // of a reduction, in global order
  std::vector<std::int64_t> offsets_;  // start of each rank's piece; the last is the total
  std::int64_t units_ = 0;
  std::int64_t unit_ = 0;  // elements
};

}  // namespace starling::dist
