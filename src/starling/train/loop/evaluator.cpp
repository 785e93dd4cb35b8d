#include "starling/train/loop/evaluator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/def/apply.h"
#include "starling/train/loop/autocast.h"
#include "starling/train/loop/eval_mode.h"
#include "starling/train/ranks/link.h"

namespace starling::train {
namespace {

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
  returned_ = {};
  if ((returned_.prediction = made.prediction.defined())) out.push_back(as_f32(made.prediction));
  if (made.target.defined()) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (same(in[i], made.target)) returned_.target_field = static_cast<int>(i);
    }
    if ((returned_.target = returned_.target_field < 0)) out.push_back(as_f32(made.target));
  }
  if ((returned_.weight = made.weight.defined())) out.push_back(made.weight);
  return out;
}

std::vector<Tensor> Evaluator::on_device(std::span<const Tensor> fields) const {
  const auto parameters = net_.parameters();
  const Device device = parameters.empty() ? kCpu : parameters.front().device();
  std::vector<Tensor> moved;
  for (const auto& field : fields) moved.push_back(to(field, device));
  return moved;
}

std::vector<Tensor> Evaluator::on_device(const Batch& batch) const {
  if (batch.placed.empty()) return on_device({batch.fields.data(), batch.fields.size()});
  return {batch.placed.begin(), batch.placed.end()};
}

Judged Evaluator::judged(const Batch& batch) { return as_judged(batch, judge_.call(on_device(batch))); }

Judged Evaluator::as_judged(const Batch& batch, const TensorList& out) const {
  const std::span<const Tensor> fields(batch.fields.data(), batch.fields.size());
  Judged judged{.prediction = {}, .target = {}, .fields = fields, .loss = out[0].item()};
  std::size_t next = 1;
  if (returned_.prediction) judged.prediction = data::on_host(out[next++]);
  if (returned_.target) judged.target = data::on_host(out[next++]);
  if (returned_.target_field >= 0) judged.target = fields[static_cast<std::size_t>(returned_.target_field)];
  judged.weight = returned_.weight ? out[next++].item() : static_cast<double>(batch.size);
  return judged;
}

namespace {

// Rows of this rank in a result that all ranks have whole, as of an op that cannot be split.
Tensor rows_of_result(const CompiledFunction& function, std::size_t output, const Tensor& value, std::int64_t total,
                      Piece own) {
  const graph::Graph& program = function.graph();
  const auto& layouts = program.value(program.outputs.at(output)).layouts;
  const bool split = !layouts.empty() && layouts[0].is_split();
  if (split || value.rank() == 0 || total == 0 || value.size(0) % total != 0) return value;
  const std::int64_t each = value.size(0) / total;
  return data::on_host(narrow(value, 0, own.begin * each, own.size * each));
}

}  // namespace

// A step of all ranks: the loss is that of the whole batch, of which this rank tells its share.
Judged Evaluator::judged_rows(const Batch& batch, const RankLink& link) {
  if (!judge_rows_)
    judge_rows_ = std::make_unique<CompiledFunction>(
        [this](std::span<const Tensor> in) { return judge(in); },
        CompileOptions{.threads = options_.threads, .strategy = link.shared_strategy()});
  const NoGrad no_grad;
  TensorList out = judge_rows_->call(on_device({batch.fields.data(), batch.fields.size()}),
                                     GlobalRows{link.strategy().program_rows(batch.total)});
  const std::size_t rows = 1 + (returned_.prediction ? 1 : 0) + (returned_.target ? 1 : 0);
  for (std::size_t i = 1; i < rows; ++i)
    out[i] = rows_of_result(*judge_rows_, i, data::on_host(out[i]), batch.total, link.strategy().rows(batch.total));
  Judged own = as_judged(batch, out);
  if (returned_.weight) own.weight *= static_cast<double>(batch.size) / static_cast<double>(batch.total);
  return own;
}

// A loader at the first sample. Threads and buffers are reused if the data set was the last one evaluated.
std::unique_ptr<Loader>& Evaluator::loader_of(const EvaluationData& data, Share share, const RankLink* link) {
  if (!data.set) {
    check(data.shards.has_value(), "[evaluate] expected data, got none");
    stream_ = std::make_unique<Loader>(*data.shards, StreamOptions{.shuffle_shards = false}, options_.loader);
    return stream_;
  }
  if (data_ != data.set || !loader_ || loader_share_ != share) {
    loader_.reset();
    data_ = data.set;
    loader_share_ = share;
    LoaderOptions options = options_.loader;
    if (share == Share::batches) {
      options.rank = link->rank();
      options.ranks = link->size();
      options.deal = true;
    } else if (share == Share::rows) {
      options.rank = link->strategy().data_rank();
      options.ranks = link->strategy().data_ranks();
      options.shards = link->strategy().shards();
    }
    loader_ = std::make_unique<Loader>(data.set, options);
  } else {
    loader_->seek({});
  }
  return loader_;
}

void Evaluator::reset_metrics() const {
  for (const auto& [name, metric] : options_.metrics) metric->reset();
}

Evaluation Evaluator::evaluate(const EvaluationData& data, const std::vector<std::string>& class_names) {
  return *evaluate_unless({}, data, class_names);
}

std::optional<Evaluation> Evaluator::evaluate_unless(const std::function<bool()>& stop, const EvaluationData& data,
                                                     const std::vector<std::string>& class_names) {
  const EvalMode eval(net_);
  reset_metrics();
  std::int64_t samples = 0;
  Loader& loader = *loader_of(data);
  while (const Batch* batch = loader.next()) {
    if (stop && stop()) return std::nullopt;
    const Judged one = judged(*batch);
    for (const auto& [name, metric] : options_.metrics) metric->add(one);
    samples += batch->size;
  }
  return told(samples, class_names);
}

Evaluation Evaluator::told(std::int64_t samples, const std::vector<std::string>& class_names) const {
  Evaluation evaluation{.samples = samples};
  for (const auto& [name, metric] : options_.metrics) {
    evaluation.metrics[name] = metric->value();
    if (auto table = metric->table(class_names); !table.empty()) evaluation.tables[name] = std::move(table);
  }
  return evaluation;
}

namespace {

std::string bytes_of(const std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}
std::vector<double> numbers_in(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace

// Results of this rank's batches, or of its rows of every batch: for each, its sample count, then for every metric the
// number of its sums, and the sums. Ranks that hold the rows of another have none. Ranks vote beside every batch
// whether any of them is to stop, so that all do so after the same batch.
std::optional<std::vector<double>> Evaluator::judge_share(const std::function<bool()>& stop, const EvaluationData& data,
                                                          Share share, RankLink& link) {
  constexpr std::int64_t kDone = 0, kGoesOn = 1, kStops = 2;
  std::vector<double> all;
  Loader& loader = *loader_of(data, share, &link);
  const bool tells = share != Share::rows || link.first_of_rows();
  for (bool ended = false;;) {
    const Batch* batch = ended ? nullptr : loader.next();
    ended = batch == nullptr;
    link.post_vote(stop && stop() ? kStops : ended ? kDone : kGoesOn);
    if (batch != nullptr) {
      const Judged one = share == Share::rows ? judged_rows(*batch, link) : judged(*batch);
      if (tells) all.push_back(static_cast<double>(batch->size));
      for (const auto& [name, metric] : options_.metrics) {
        if (!tells) break;
        metric->reset();
        if (batch->size > 0) metric->add(one);
        const std::vector<double> sums = *metric->sums();
        all.push_back(static_cast<double>(sums.size()));
        all.insert(all.end(), sums.begin(), sums.end());
      }
    }
    const auto votes = link.take_vote();
    if (std::count(votes.begin(), votes.end(), kStops) > 0) return std::nullopt;
    if (std::count(votes.begin(), votes.end(), kDone) == std::ssize(votes)) return all;
  }
}

// Joins the batches in their global order, as a single rank would have added them.
std::int64_t Evaluator::join_shares(const std::vector<std::string>& shares) {
  std::vector<std::vector<double>> numbers;
  for (const auto& share : shares) numbers.push_back(numbers_in(share));
  std::erase_if(numbers, [](const auto& share) { return share.empty(); });
  std::vector<std::size_t> next(numbers.size(), 0);
  std::int64_t samples = 0;
  reset_metrics();
  for (std::size_t rank = 0; !numbers.empty() && next[rank] < numbers[rank].size();
       rank = (rank + 1) % numbers.size()) {
    const std::span<const double> share = numbers[rank];
    std::size_t& at = next[rank];
    samples += static_cast<std::int64_t>(share[at++]);
    for (const auto& [name, metric] : options_.metrics) {
      const auto count = static_cast<std::size_t>(share[at++]);
      metric->join(share.subspan(at, count));
      at += count;
    }
  }
  return samples;
}

std::optional<Evaluation> Evaluator::judge_shared(const std::function<bool()>& stop, const EvaluationData& data,
                                                  Share share, const std::vector<std::string>& class_names,
                                                  RankLink& link) {
  const EvalMode eval(net_);
  const auto own = judge_share(stop, data, share, link);
  if (!own) return std::nullopt;
  Evaluation evaluation = told(join_shares(link.gather(bytes_of(*own))), class_names);
  if (!link.leads()) evaluation.tables.clear();
  return evaluation;
}

bool Evaluator::adds_up(const EvaluationData& data) const {
  reset_metrics();
  return data.set && std::all_of(options_.metrics.begin(), options_.metrics.end(),
                                 [](const NamedMetric& one) { return one.metric->sums().has_value(); });
}

bool Evaluator::judges_pieces(const EvaluationData& data, const RankLink& link) const {
  const auto parameters = net_.parameters();
  return link.strategy().sharded() != nullptr && adds_up(data) &&
         std::any_of(parameters.begin(), parameters.end(), [](const Tensor& one) { return !one.impl()->storage; });
}

std::optional<Evaluation> Evaluator::evaluate_unless(const std::function<bool()>& stop, const EvaluationData& data,
                                                     const std::vector<std::string>& class_names, RankLink& link,
                                                     bool equal) {
  if (judges_pieces(data, link)) return judge_shared(stop, data, Share::rows, class_names, link);
  if (link.size() == 1) return evaluate_unless(stop, data, class_names);
  if (equal && adds_up(data)) return judge_shared(stop, data, Share::batches, class_names, link);
  std::optional<Evaluation> found;
  std::vector<double> numbers;  // none: stopped
  if (link.leads()) {
    const auto asked = [&] {
      link.progress();
      return stop && stop();
    };
    if ((found = evaluate_unless(asked, data, class_names))) {
      numbers.push_back(static_cast<double>(found->samples));
      for (const auto& [name, value] : found->metrics) numbers.push_back(value);
    }
  }
  numbers = numbers_in(link.broadcast(bytes_of(numbers)));
  if (numbers.empty()) return std::nullopt;
  Evaluation evaluation = found ? std::move(*found) : Evaluation{};
  evaluation.samples = static_cast<std::int64_t>(numbers[0]);
  for (const auto& [name, metric] : options_.metrics) evaluation.metrics[name] = 0;
  std::size_t next = 1;
  for (auto& [name, value] : evaluation.metrics) value = numbers[next++];
  return evaluation;
}

Tensor Evaluator::predict(std::span<const Tensor> fields) {
  const EvalMode eval(net_);
  return data::on_host(predict_.call(on_device(fields))[0]);
}

void Evaluator::predict(const EvaluationData& data,
                        const std::function<void(const Tensor& prediction, std::int64_t first)>& take) {
  Loader& loader = *loader_of(data);
  while (const Batch* batch = loader.next())
    take(predict({batch->fields.data(), batch->fields.size()}), batch->begin.sample);
}

}  // namespace starling::train
