#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace starling {

// How elements of several ranks combine. Graphs, bindings and messages name it by its word.
enum class ReduceOp : std::uint8_t { sum, mean, max, min, product };
inline constexpr int kReduceOpCount = 5;
std::string_view name(ReduceOp op);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);  // nullopt: no reduction has that name

}  // namespace starling
