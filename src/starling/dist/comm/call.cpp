#include "starling/dist/comm/call.h"

namespace starling {

std::string_view name(CommOp op) {
  constexpr std::string_view names[kCommOpCount] = {"broadcast",  "all_reduce", "reduce_scatter", "all_gather",
                                                    "all_to_all", "gather",     "scatter",        "sum_shards",
                                                    "barrier",    "split",      "send",           "recv"};
  return names[static_cast<int>(op)];
}

}  // namespace starling
