#include "starling/train/job/job_graph.h"

#include "starling/graph/tracer.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/train/loop/eval_mode.h"

namespace starling::train {

graph::Graph trace_job(const PreparedJob& prepared, const JobGraphOptions& options) {
  std::vector<Tensor> stand_ins;
  for (const auto& type : prepared.data.fields) {
    Shape shape = type.shape;
    shape.insert(0, options.batch > 0 ? options.batch : prepared.job.data.load.batch);
    stand_ins.push_back(empty(shape, type.dtype));
  }
  if (!options.train) {
    stand_ins.resize(1);  // the others are targets
    const EvalMode eval(*prepared.net);
    return graph::trace(
               [&](std::span<const Tensor> in) {
                 const NoGrad no_grad;
                 return TensorList{prepared.objective->predict(*prepared.net, in)};
               },
               stand_ins)
        .graph;
  }
  const auto optimizer = options.update ? make_optimizer(prepared.job, *prepared.net) : nullptr;
  return graph::trace(
             [&](std::span<const Tensor> in) {
               const Tensor loss = prepared.objective->apply(*prepared.net, in).loss;
               if (!optimizer) return TensorList{loss};
               loss.backward();
               optimizer->step();
               return TensorList{loss};
             },
             stand_ins)
      .graph;
}

}  // namespace starling::train
