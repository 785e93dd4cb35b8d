#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

// coded_reduce(x, states..., x, states..., …) → (y, states..., …): sums of every rank's x over a group, exchanged in
// the wire form of a codec (dist/codec/codec.h). Every tensor has as many states: what the codec keeps of it between
// steps, each rank its own. All ranks decode the same bytes, so y has the same bits everywhere. Tensors and states are
// f32.
struct CodedReduceAttrs {
  Symbol codec{};                    // as a job gives it, with all options: {"name": "one_bit", "feedback": true}
  std::int64_t tensors = 1;          // tensors that share the exchange
  std::int64_t rank = 0, ranks = 1;  // of the group
  Symbol name{};                     // label for diagnostics
  Symbol group{};
  static AttrFields fields() {
    return {field("codec", &CodedReduceAttrs::codec), field("tensors", &CodedReduceAttrs::tensors),
            field("rank", &CodedReduceAttrs::rank),   field("ranks", &CodedReduceAttrs::ranks),
            field("name", &CodedReduceAttrs::name),   field("group", &CodedReduceAttrs::group)};
  }
  std::size_t operands(std::size_t all) const { return all / static_cast<std::size_t>(tensors); }  // of one tensor
};

}  // namespace starling::op
