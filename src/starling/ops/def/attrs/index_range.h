#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct IndexRangeAttrs {
  std::int64_t size = 0;  // indices are in [0, size)
  bool ignores = false;   // `ignore_index` is allowed, too
  std::int64_t ignore_index = -100;
  Symbol who{"embedding"};  // words of the error: op, name of the indices, how they are counted
  Symbol what{"indices"};
  Symbol place{"at position"};
  static AttrFields fields() {
    return {field("size", &IndexRangeAttrs::size),
            field("ignores", &IndexRangeAttrs::ignores),
            field("ignore_index", &IndexRangeAttrs::ignore_index),
            field("who", &IndexRangeAttrs::who),
            field("what", &IndexRangeAttrs::what),
            field("place", &IndexRangeAttrs::place)};
  }
};

// The indices i64[…], checked: a rank that looks up a part of a range would take one that is in none for another's.
// Running throws "[who] expected indices in [0, size), got … at position …" as the op on the whole range does.
Tensor index_range(const Tensor& indices, const IndexRangeAttrs& attrs);

}  // namespace starling::op
