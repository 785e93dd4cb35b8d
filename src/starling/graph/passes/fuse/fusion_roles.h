#pragma once

#include <optional>

#include "starling/graph/graph.h"

namespace starling::graph {

// Role of a node in a fused chain.
enum class FusionKind : std::uint8_t { none, map, reduce, stretch, reshape };
FusionKind fusion_kind(const Graph& graph, NodeId id);

// Axes that a reduction reduces, ascending.
Shape fusion_axes(const Graph& graph, NodeId id);

// `whole` with `axes` set to 1.
Shape collapsed_shape(const Shape& whole, const Shape& axes);
// Shape with leading 1s up to this rank; empty if its rank is larger.
std::optional<Shape> padded_shape(const Shape& shape, int rank);

// Axis of `whole` for each dimension of `shape`, if `shape` is `whole` with `axes` set to 1 or removed.
std::optional<Shape> fusion_places(const Shape& shape, const Shape& whole, const Shape& axes);

// True if `axes` are the last of the whole shape; sizes of 1 count as either.
bool are_last(const Shape& axes, const Shape& whole);
// True if an operand of this shape is full along all of these axes or broadcast along all of them.
bool even_along(const Shape& operand, const Shape& whole, const Shape& axes);
// True if reductions over `other` reduce all of `axes` or none of them; sizes of 1 count as either.
bool all_or_none(const Shape& other, const Shape& axes, const Shape& whole);

}  // namespace starling::graph
