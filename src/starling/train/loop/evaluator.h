#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "starling/data/loading/loader.h"
#include "starling/nn/module.h"
#include "starling/runtime/compile.h"
#include "starling/train/loop/evaluation.h"
#include "starling/train/loop/precision.h"
#include "starling/train/metric.h"
#include "starling/train/objective.h"

namespace starling::train {

class RankLink;

// Data to evaluate on: a data set, or shards that are read in order.
struct EvaluationData {
  std::shared_ptr<const Dataset> set{};
  std::optional<data::RecordShards> shards{};
  bool empty() const { return (!set || set->size() == 0) && !shards; }
};

struct EvaluatorOptions {
  std::vector<NamedMetric> metrics{};  // empty: the objective's metrics
  LoaderOptions loader{.batch = 500};  // shuffle and drop_last are ignored
  Precision precision = Precision::f32;
  int threads = 0;
};

// Runs a network in eval mode over data sets, with compiled forward passes, and computes metrics. Restores the
// network's mode afterwards.
class Evaluator {
 public:
  // `net` must outlive the evaluator.
  Evaluator(nn::Module& net, ObjectivePtr objective, EvaluatorOptions options);

  Evaluation evaluate(const EvaluationData& data, const std::vector<std::string>& class_names = {});
  // As evaluate(), but asks `stop` between batches; nullopt if stopped.
  std::optional<Evaluation> evaluate_unless(const std::function<bool()>& stop, const EvaluationData& data,
                                            const std::vector<std::string>& class_names);
  // Collective evaluation over the ranks of a run. If all ranks have `equal` weights, each judges some of the batches,
  // and all get the result; otherwise, and if data or metrics cannot be divided, rank 0 judges for all. Tables are on
  // rank 0 only.
  // `stop` (null: never) is asked between batches on every rank that judges; once it is true on one, all get nullopt.
  std::optional<Evaluation> evaluate_unless(const std::function<bool()>& stop, const EvaluationData& data,
                                            const std::vector<std::string>& class_names, RankLink& link, bool equal);
  Evaluation evaluate(const EvaluationData& data, const std::vector<std::string>& class_names, RankLink& link,
                      bool equal) {
    return *evaluate_unless({}, data, class_names, link, equal);
  }
  // True if the network's weights are stored in pieces and the ranks can evaluate them so: with data that is asked by
  // number, and metrics that can be added up. Each judges its rows of every batch, and none holds the whole weights.
  bool judges_pieces(const EvaluationData& data, const RankLink& link) const;
  Tensor predict(std::span<const Tensor> fields);  // f32, on the CPU
  void predict(const EvaluationData& data,
               const std::function<void(const Tensor& prediction, std::int64_t first)>& take);

  const std::vector<NamedMetric>& metrics() const { return options_.metrics; }

 private:
  // How batches are divided: not at all, in turn, or by rows.
  enum class Share : std::uint8_t { none, batches, rows };

  TensorList judge(std::span<const Tensor> in);
  Judged judged(const Batch& batch);
  Judged judged_rows(const Batch& batch, const RankLink& link);
  Judged as_judged(const Batch& batch, const TensorList& out) const;
  std::unique_ptr<Loader>& loader_of(const EvaluationData& data, Share share = Share::none,
                                     const RankLink* link = nullptr);
  bool adds_up(const EvaluationData& data) const;
  void reset_metrics() const;
  std::optional<std::vector<double>> judge_share(const std::function<bool()>& stop, const EvaluationData& data,
                                                 Share share, RankLink& link);
  std::optional<Evaluation> judge_shared(const std::function<bool()>& stop, const EvaluationData& data, Share share,
                                         const std::vector<std::string>& class_names, RankLink& link);
  std::int64_t join_shares(const std::vector<std::string>& shares);
  Evaluation told(std::int64_t samples, const std::vector<std::string>& class_names) const;
  std::vector<Tensor> on_device(std::span<const Tensor> fields) const;
  std::vector<Tensor> on_device(const Batch& batch) const;

  nn::Module& net_;
  ObjectivePtr objective_;
  EvaluatorOptions options_;
  // Outputs of the compiled function. The target may instead be a field of the batch itself.
  struct Returned {
    bool prediction = false;
    bool target = false;
    bool weight = false;
    int target_field = -1;
  };
  Returned returned_{};
  CompiledFunction judge_;
  CompiledFunction predict_;
  std::shared_ptr<const Dataset> data_;  // data set of loader_, which is kept for the next evaluation
  std::unique_ptr<Loader> loader_;
  Share loader_share_ = Share::none;              // rows of the batches that loader_ makes
  std::unique_ptr<CompiledFunction> judge_rows_;  // as judge_, on pieces of the weights
  std::unique_ptr<Loader> stream_;
};

}  // namespace starling::train
