#pragma once

#include <optional>

#include "starling/graph/graph.h"

namespace starling {

// What a node may be to a fused chain.
enum class FusionKind : std::uint8_t { none, map, reduce, stretch, reshape };
FusionKind fusion_kind(const Graph& graph, NodeId id);

// The axes of a reduction's operand that it reduces, ascending.
Shape fusion_axes(const Graph& graph, NodeId id);

// A shape whose axes have become 1.
Shape collapsed_shape(const Shape& whole, const Shape& axes);
// Sizes of 1 put before a shape until it has this rank; empty where it has more.
std::optional<Shape> padded_shape(const Shape& shape, int rank);

// Which axis of `whole` each dimension of `shape` is, if it is the whole shape with `axes` as 1, or without them.
std::optional<Shape> fusion_places(const Shape& shape, const Shape& whole, const Shape& axes);

// Whether `axes` are the last of the whole shape; sizes of 1 count as either.
bool are_last(const Shape& axes, const Shape& whole);
// Whether an operand of this shape is whole along all of these axes or stretched along all of them.
bool even_along(const Shape& operand, const Shape& whole, const Shape& axes);
// Whether reductions over `other` reduce all of `axes` or none of them; sizes of 1 count as either.
bool all_or_none(const Shape& other, const Shape& axes, const Shape& whole);

}  // namespace starling
