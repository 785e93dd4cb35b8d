#include "starling/train/job/job_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "starling/base/config/config.h"
#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/data/datasets/transformed_dataset.h"
#include "starling/data/loading/split.h"
#include "starling/data/transform_pipeline.h"
#include "starling/tensor/bytes.h"
#include "starling/train/job/data_key.h"
#include "starling/train/job/job_error.h"

namespace starling::train {
namespace {

// A data set with the same bytes and another shape.
class ShapeAs final : public Transform {
 public:
  explicit ShapeAs(const Shape& sample) : sample_(sample) {}
  std::vector<TensorType> fields(std::vector<TensorType> in) const override {
    check(in.at(0).shape.numel() == sample_.numel(), "expected samples of {}, got {}", to_string(sample_),
          to_string(in.at(0)));
    in[0].shape = sample_;
    return in;
  }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey&) const override {
    for (std::size_t f = 0; f < in.size(); ++f) {
      const auto bytes = bytes_of(in[f].type);
      std::memcpy(out[f].data, in[f].data, bytes);
    }
  }

 private:
  Shape sample_;
};

// Order: transforms of samples first, then those of batches.
void add_steps(const std::vector<Chosen<TransformStep>>& chosen, std::vector<TransformStep>& steps) {
  for (const auto& kind : chosen) steps.push_back(kind.make());
  std::stable_partition(steps.begin(), steps.end(), [](const TransformStep& step) { return step.batch == nullptr; });
}

std::vector<TensorType> raw_fields(const data::DataSplits& splits) {
  check(splits.train != nullptr || splits.train_shards.has_value(), "[train] expected data to train with, got none");
  return splits.train ? splits.train->fields() : splits.train_shards->decoder->fields();
}

bool has_valid(const data::DataSplits& splits) { return splits.valid || splits.valid_shards; }
bool has_test(const data::DataSplits& splits) { return splits.test || splits.test_shards; }

// Keeps only the split to be evaluated and returns its name.
std::string choose_evaluated(LoadJob::Evaluate wanted, data::DataSplits& splits) {
  using Evaluate = LoadJob::Evaluate;
  if (wanted == Evaluate::valid && !has_valid(splits))
    throw JobError(
        "data.evaluate",
        "[train] expected a part to validate with (data.evaluate: valid), got none from the source (keep some "
        "apart by data.valid_share: 0.1)");
  if (wanted == Evaluate::test && !has_test(splits))
    throw JobError("data.evaluate",
                   "[train] expected a part to test with (data.evaluate: test), got none from the source (keep some "
                   "apart by data.split: {test: 0.1}, or name files to test with)");
  if (wanted == Evaluate::test || wanted == Evaluate::none) {
    splits.valid = nullptr;
    splits.valid_shards.reset();
  }
  if (wanted == Evaluate::none) {
    splits.test = nullptr;
    splits.test_shards.reset();
  }
  return has_valid(splits) ? "valid" : has_test(splits) ? "test" : "";
}

// Types of samples behind the steps of the training samples. A step that cannot take them is refused at its key, unless
// steps that mix batches have changed the order.
std::vector<TensorType> transformed_fields(const DataJob& job, const JobData& data) {
  const std::vector<TensorType> raw = raw_fields(data.splits);
  const auto& steps = data.train_steps;
  const bool mixes = std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.batch != nullptr; });
  for (std::size_t n = 1; !mixes && n <= steps.size(); ++n) {
    try {
      static_cast<void>(TransformPipeline({steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(n)}, raw));
    } catch (const Error& error) {
      const std::size_t augments = job.augment.size();
      throw JobError(
          n <= augments ? fmt::format("data.augment.{}", n - 1) : fmt::format("data.transforms.{}", n - 1 - augments),
          error.what());
    }
  }
  return TransformPipeline(steps, raw).fields();
}

// Inserts a step behind those of samples and before those that mix a batch, which come last.
void add_sample_step(JobData& data, const TransformStep& step) {
  for (auto* steps : {&data.train_steps, &data.eval_steps}) {
    const auto mixing =
        std::find_if(steps->begin(), steps->end(), [](const TransformStep& one) { return one.batch != nullptr; });
    steps->insert(mixing, step);
  }
  data.fields = TransformPipeline(data.train_steps, raw_fields(data.splits)).fields();
}

// Number of numbers that a sample's second field holds to be predicted; 0 if it holds labels or pictures.
std::int64_t count_targets(const JobData& data) {
  if (data.splits.classes > 0 || data.splits.vocabulary > 0 || data.fields.size() < 2) return 0;
  const TensorType& target = data.fields[1];
  return is_float(target.dtype) && target.shape.rank() <= 1 ? target.shape.numel() : 0;
}

}  // namespace

data::DataSplits read_splits(const DataJob& job, const data::Reading& as) {
  data::DataSplits splits = job.source.make()(as);
  if (job.load.split) data::split_by_seed(splits, *job.load.split);
  return splits;
}

JobData load_job_data(const DataJob& job, const data::Reading& as) {
  JobData data;
  data.splits = read_splits(job, as);
  add_steps(job.augment, data.train_steps);
  add_steps(job.transforms, data.train_steps);
  add_steps(job.transforms, data.eval_steps);
  // Mixed samples are there to train with, wherever a job names the mixing.
  std::erase_if(data.eval_steps, [](const TransformStep& step) { return step.batch != nullptr; });
  data.fields = transformed_fields(job, data);
  data.facts = {data.splits.classes, data.splits.vocabulary, data.fields.at(0).shape};
  data.targets = count_targets(data);
  data.unlabelled = data.splits.train;
  if (job.load.labels > 0) {
    if (data.splits.train == nullptr)
      throw JobError("data.labels",
                     "[train] expected data that can be asked by number for data.labels, got shards "
                     "(read them without streaming, or leave data.labels out)");
    data.splits.train = data::first_of(data.splits.train, job.load.labels);
  }
  data.evaluated = choose_evaluated(job.load.evaluate, data.splits);
  if (data.splits.classes == 1)
    data.splits.notes.emplace_back("all samples have one and the same class, so there is nothing to learn");
  return data;
}

void convert_to_numbers(JobData& data) {
  const auto convert = [&](std::size_t field) {
    const std::string options = fmt::format("{{name: to_float, field: {}}}", field);
    data.conversions.push_back(transform_kinds().choose(ConfigNode::parse(options, "data")));
    add_sample_step(data, data.conversions.back().make());
  };
  const DType given = data.fields.at(0).dtype;
  const bool ids = !is_float(given) && data.facts.vocabulary > 0;
  if (given != DType::f32 && !ids) convert(0);
  if (data.fields.size() > 1 && data.fields[1].dtype == DType::f64) convert(1);
}

JobData load_job_data(const Job& job, const data::Reading& as) {
  try {
    return load_job_data(job.data, as);
  } catch (const JobError& error) {
    refuse_job(job, error.path(), error.what());
  } catch (const Error& error) {
    refuse_job(job, data_key(job, error.what()), error.what());
  }
}

void reshape_samples(JobData& data, const Shape& sample) {
  if (data.fields.at(0).shape == sample) return;
  add_sample_step(data, TransformStep(std::make_shared<const ShapeAs>(sample)));
}

}  // namespace starling::train
