#pragma once

#include <functional>

#include "starling/graph/control_apply.h"
#include "starling/graph/tracer.h"

namespace starling {

// How a body was traced. Its gradient goes on from there, in a copy of the tracer, over what the tape has recorded: so
// a detach(), a custom function or a hook in the body means what it means anywhere.
struct BodyHistory {
  Tracer tracer;
  std::uint64_t floor = 0;  // the tape's nodes of the body are numbered from here
  TensorList own;           // stand-ins of its inputs: first these,
  TensorList captures;      // then these
  TensorList outputs;
};

// The body that a tracer has made, with its inputs in this order.
Body finished(std::shared_ptr<BodyHistory> history);

// The same for a graph that was not traced here (read from a file, say): its nodes are applied again.
std::shared_ptr<const BodyHistory> replayed(const Graph& body, std::string_view control, std::size_t own);

// A body as code: what it makes of the inputs that are its own.
using BodyFn = std::function<TensorList(const TensorList& own)>;

// Traces functions that take the same inputs (`own`, by type) into bodies that also take the same captures: what any of
// them reads from outside is added to `captures`, and becomes an input of all.
std::vector<Body> trace_bodies(std::string_view control, const Types& own, std::span<const BodyFn> functions,
                               TensorList& captures);

}  // namespace starling
