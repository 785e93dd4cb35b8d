#pragma once

#include <cstdint>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/shape.h"

namespace starling::dist {

// Part of a tensor that one rank stores: along every dimension some intervals of the whole, in their order. The part is
// dense: its dimension has the lengths of all intervals together.
//
//   Region region(Shape{6, 4});
//   region.cut(0, 3, 1, 2);      // three blocks of two rows; this is the second of two ranks: rows 1, 3 and 5
class Region {
 public:
  explicit Region(const Shape& whole);

  // Keeps the piece of one of `ranks` ranks, of what is left of a dimension that lies in equal blocks.
  void cut(int dim, std::int64_t blocks, int rank, int ranks);

  const Shape& whole() const { return whole_; }
  Shape shape() const;  // of the part

  // Elements that lie side by side in the whole and in the part.
  struct Run {
    std::int64_t whole, part, count;  // offset of the first in each, in elements
  };
  // Visits the runs in order: of the whole region, or of rows [first, last) of the whole tensor.
  void each(FunctionRef<void(const Run&)> visit) const;
  void each(std::int64_t first, std::int64_t last, FunctionRef<void(const Run&)> visit) const;

  // Rows of the part that lie in rows [first, last) of the whole.
  Piece rows(std::int64_t first, std::int64_t last) const;

 private:
  using Intervals = std::vector<Piece>;
  void walk(int dim, std::int64_t whole, std::int64_t part, const Intervals& intervals,
            FunctionRef<void(const Run&)> visit) const;
  Intervals within(std::int64_t first, std::int64_t last, std::int64_t& before) const;
  bool is_whole_after(int dim) const;

  Shape whole_;
  std::vector<Intervals> dims_;
};

}  // namespace starling::dist
