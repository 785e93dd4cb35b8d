#include "traced_writes.h"

#include "starling/base/error.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/op_def.h"
#include "tensor_object.h"

namespace starling::python {
namespace {

// The value whose memory this one would show in eager execution: itself, or what it is a view of.
graph::ValueId root_of(const graph::Graph& graph, graph::ValueId value) {
  while (graph.maker(value).op->view) value = graph.maker(value).in[0];
  return value;
}

}  // namespace

void expect_own_value(const Tensor& x) {
  const graph::Tracer* const tracer = current_interpreter().tracer();
  check(tracer && x.impl()->tracer == tracer->id(),
        "[setitem] expected a value of this function being compiled, got one of another: use where() or index_put()");
  const graph::Graph& graph = tracer->graph();
  const graph::ValueId root = root_of(graph, x.impl()->value);
  check(!graph::is_source(graph.maker(root)) && x.numel() <= graph.value(root).type.shape.numel(),
        "[setitem] expected a tensor that the function being compiled has made, got an argument or a tensor from "
        "outside: write into x.clone(), or use where() or index_put()");
  each_known_tensor([&](const TensorImpl* other) {
    check(other == x.impl() || other->tracer != tracer->id() || root_of(graph, other->value) != root,
          "[setitem] expected the only tensor over this memory in a function being compiled, got a view beside it: "
          "clone() the view, or use where() or index_put()");
  });
}

}  // namespace starling::python
