#include "starling/train/evaluator.h"

#include <utility>

#include "starling/base/error.h"
#include "starling/data/host_bytes.h"
#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/train/autocast.h"

namespace starling {
namespace {

// Eval mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(nn::Module& net) : net_(net), before_(net.training()) { net.eval(); }
  ~EvalMode() { net_.train(before_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Module& net_;
  bool before_;
};

Tensor as_f32(const Tensor& tensor) { return is_half(tensor.dtype()) ? cast(tensor, DType::f32) : tensor; }

}  // namespace

Evaluator::Evaluator(nn::Module& net, ObjectivePtr objective, EvaluatorOptions options)
    : net_(net),
      objective_(std::move(objective)),
      options_(std::move(options)),
      judge_([this](std::span<const Tensor> in) { return judge(in); }, {.threads = options_.threads}),
      predict_(
          [this](std::span<const Tensor> in) {
            const NoGrad no_grad;
            const Autocast autocast(options_.precision);
            return TensorList{as_f32(objective_->predict(net_, in))};
          },
          {.threads = options_.threads}) {
  if (options_.metrics.empty()) options_.metrics = metrics_by_name(objective_->metrics());
  options_.loader.shuffle = false;
  options_.loader.drop_last = false;
}

TensorList Evaluator::judge(std::span<const Tensor> in) {
  const NoGrad no_grad;
  Objective::Outputs made;
  {
    const Autocast autocast(options_.precision);
    made = objective_->apply(net_, in);
  }
  TensorList out{as_f32(made.loss)};
  layout_ = {};
  if ((layout_.prediction = made.prediction.defined())) out.push_back(as_f32(made.prediction));
  if (made.target.defined()) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (same(in[i], made.target)) layout_.target_field = static_cast<int>(i);
    }
    if ((layout_.target = layout_.target_field < 0)) out.push_back(as_f32(made.target));
  }
  if ((layout_.weight = made.weight.defined())) out.push_back(made.weight);
  return out;
}

std::vector<Tensor> Evaluator::on_device(std::span<const Tensor> fields) const {
  const auto parameters = net_.parameters();
  const Device device = parameters.empty() ? kCpu : parameters.front().device();
  std::vector<Tensor> moved;
  for (const auto& field : fields) moved.push_back(to(field, device));
  return moved;
}

Judged Evaluator::judged(const Batch& batch) {
  const std::span<const Tensor> fields(batch.fields.data(), batch.fields.size());
  const TensorList out = judge_.call(on_device(fields));
  Judged judged{.prediction = {}, .target = {}, .fields = fields, .loss = out[0].item()};
  std::size_t next = 1;
  if (layout_.prediction) judged.prediction = on_host(out[next++]);
  if (layout_.target) judged.target = on_host(out[next++]);
  if (layout_.target_field >= 0) judged.target = fields[static_cast<std::size_t>(layout_.target_field)];
  judged.weight = layout_.weight ? out[next++].item() : static_cast<double>(batch.size);
  return judged;
}

// At the first sample. Threads and buffers of a data set that was evaluated before are used again.
std::unique_ptr<Loader>& Evaluator::loader_of(const EvaluationData& data) {
  if (!data.set) {
    check(data.shards.has_value(), "[evaluate] expected data, got none");
    stream_ = std::make_unique<Loader>(*data.shards, StreamOptions{.shuffle_shards = false}, options_.loader);
    return stream_;
  }
  if (data_ != data.set || !loader_) {
    loader_.reset();
    data_ = data.set;
    loader_ = std::make_unique<Loader>(data.set, options_.loader);
  } else {
    loader_->seek({});
  }
  return loader_;
}

Evaluation Evaluator::evaluate(const EvaluationData& data, const std::vector<std::string>& class_names) {
  const EvalMode eval(net_);
  for (const auto& [name, metric] : options_.metrics) metric->reset();
  Evaluation evaluation;
  Loader& loader = *loader_of(data);
  while (const Batch* batch = loader.next()) {
    const Judged one = judged(*batch);
    for (const auto& [name, metric] : options_.metrics) metric->add(one);
    evaluation.samples += batch->size;
  }
  for (const auto& [name, metric] : options_.metrics) {
    evaluation.metrics[name] = metric->value();
    if (auto table = metric->table(class_names); !table.empty()) evaluation.tables[name] = std::move(table);
  }
  return evaluation;
}

Tensor Evaluator::predict(std::span<const Tensor> fields) {
  const EvalMode eval(net_);
  return on_host(predict_.call(on_device(fields))[0]);
}

void Evaluator::predict(const EvaluationData& data,
                        const std::function<void(const Tensor& prediction, std::int64_t first)>& take) {
  Loader& loader = *loader_of(data);
  while (const Batch* batch = loader.next())
    take(predict({batch->fields.data(), batch->fields.size()}), batch->begin.sample);
}

}  // namespace starling
