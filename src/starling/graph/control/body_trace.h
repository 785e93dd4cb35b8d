#pragma once

#include <functional>

#include "starling/graph/control/control_apply.h"
#include "starling/graph/tracer.h"

namespace starling::graph {

// Trace of a body. Its gradient continues in a copy of the tracer, over what the tape has recorded, so that a detach(),
// a custom function or a hook in the body works as anywhere.
struct BodyHistory {
  Tracer tracer;
  std::uint64_t floor = 0;  // the body's tape nodes are numbered from here
  TensorList own;           // traced inputs: own ones,
  TensorList captures;      // then captures
  TensorList outputs;
};

// Body from a finished trace, with its inputs in this order.
Body finished(std::shared_ptr<BodyHistory> history);

// History of a graph that was not traced here (read from a file, say): its nodes are applied again.
std::shared_ptr<const BodyHistory> replayed(const Graph& body, std::string_view control, std::size_t own);

// Body as a function of its own inputs.
using BodyFn = std::function<TensorList(const TensorList& own)>;

// Traces functions with the same inputs (`own`, by type) into bodies with the same captures: what any of them reads
// from outside is added to `captures` and becomes an input of all.
std::vector<Body> trace_bodies(std::string_view control, const Types& own, std::span<const BodyFn> functions,
                               TensorList& captures);

}  // namespace starling::graph
