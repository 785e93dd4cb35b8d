#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "starling/data/loader.h"
#include "starling/nn/module.h"
#include "starling/runtime/compile.h"
#include "starling/train/evaluation.h"
#include "starling/train/metric.h"
#include "starling/train/objective.h"
#include "starling/train/precision.h"

namespace starling {

class RankLink;

// A data set, or shards that are read one after another.
struct EvaluationData {
  std::shared_ptr<const Dataset> set{};
  std::optional<RecordShards> shards{};
  bool empty() const { return (!set || set->size() == 0) && !shards; }
};

struct EvaluatorOptions {
  std::vector<NamedMetric> metrics{};  // empty: those of the objective
  LoaderOptions loader{.batch = 500};  // in the order of the data set, whatever it says
  Precision precision = Precision::f32;
  int threads = 0;
};

// Runs a network in eval mode over data sets, with compiled forward passes, and judges what it predicts. The network is
// in the mode it was in afterwards.
class Evaluator {
 public:
  // The network must live as long.
  Evaluator(nn::Module& net, ObjectivePtr objective, EvaluatorOptions options);

  Evaluation evaluate(const EvaluationData& data, const std::vector<std::string>& class_names = {});
  // The same, asking between batches whether to leave; nothing then.
  std::optional<Evaluation> evaluate_unless(const std::function<bool()>& stop, const EvaluationData& data,
                                            const std::vector<std::string>& class_names);
  // The same for all ranks of a run. Where their weights are `equal`, each judges some of the batches, and all come to
  // the result of one; otherwise, and where data or metrics cannot be shared out, rank 0 judges for all. Tables are on
  // rank 0.
  Evaluation evaluate(const EvaluationData& data, const std::vector<std::string>& class_names, RankLink& link,
                      bool equal);
  Tensor predict(std::span<const Tensor> fields);  // f32, on the CPU
  void predict(const EvaluationData& data,
               const std::function<void(const Tensor& prediction, std::int64_t first)>& take);

  const std::vector<NamedMetric>& metrics() const { return options_.metrics; }

 private:
  TensorList judge(std::span<const Tensor> in);
  Judged judged(const Batch& batch);
  std::unique_ptr<Loader>& loader_of(const EvaluationData& data, const RankLink* shared = nullptr);
  void reset_metrics() const;
  std::vector<double> judge_share(const EvaluationData& data, const RankLink& link);
  std::int64_t join_shares(const std::vector<std::string>& shares);
  Evaluation told(std::int64_t samples, const std::vector<std::string>& class_names) const;
  std::vector<Tensor> on_device(std::span<const Tensor> fields) const;

  nn::Module& net_;
  ObjectivePtr objective_;
  EvaluatorOptions options_;
  // Which of its outputs the compiled function has; the target may be a field of the batch as it is.
  struct Layout {
    bool prediction = false;
    bool target = false;
    bool weight = false;
    int target_field = -1;
  };
  Layout layout_{};
  CompiledFunction judge_;
  CompiledFunction predict_;
  std::shared_ptr<const Dataset> data_;  // of the loader, which is kept for the next time
  std::unique_ptr<Loader> loader_;
  bool loader_shares_ = false;  // it makes this rank's batches only
  std::unique_ptr<Loader> stream_;
};

}  // namespace starling
