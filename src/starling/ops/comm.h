#pragma once

#include "starling/ops/attrs.h"
#include "starling/ops/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct AllReduceAttrs {
  Symbol reduce{"sum"};  // sum, max, min, product
  Symbol name{};         // for diagnostics: what is being reduced
  static AttrFields fields() {
    return {field("reduce", &AllReduceAttrs::reduce), field("name", &AllReduceAttrs::name)};
  }
};

// The reduction of every rank's x, on every rank. Its gradient for sum is an all_reduce of the gradient: each rank's x
// enters the result on every rank.
Tensor all_reduce(const Tensor& x, const AllReduceAttrs& attrs = {});

struct OrderedSumAttrs {
  std::int64_t shards = 1;  // of all ranks together
  Symbol order{"shard"};    // shard: one after another; tree: per rank first (the control that shows the difference)
  Symbol name{};
  static AttrFields fields() {
    return {field("shards", &OrderedSumAttrs::shards), field("order", &OrderedSumAttrs::order),
            field("name", &OrderedSumAttrs::name)};
  }
};
// ordered_sum(xs...): the terms of this rank's logical shards; the result is ((s0 + s1) + s2) + … over the shards of
// all ranks, the same bits however many ranks hold them.

}  // namespace starling
