#include "starling/train/report/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/def/apply.h"
#include "starling/train/job/job_evaluation.h"
#include "starling/train/loop/evaluator.h"
#include "starling/train/monitor/picture.h"

namespace starling::train {
namespace {

constexpr std::int64_t kShownValues = 8;

struct Guess {
  std::int64_t predicted = 0;
  double confidence = 0;
};

Guess guess_of(const float* logits, std::int64_t classes) {
  const float* best = std::max_element(logits, logits + classes);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[c]) - *best);
  return {best - logits, 1 / sum};
}

std::string first_values(const Tensor& sample) {
  const NoGrad no_grad;
  const Tensor flat = reshape(cast(sample, DType::f32), {sample.numel()});
  const std::int64_t shown = std::min(kShownValues, flat.numel());
  std::string text;
  for (std::int64_t i = 0; i < shown; ++i) text += fmt::format("{}{:.3g}", i == 0 ? "" : ", ", flat.data<float>()[i]);
  return text + (shown < flat.numel() ? ", …" : "");
}

// Shape of a sample as its file has it: networks of plain layers get pictures flattened.
Shape shape_in_file(const EvaluationData& data) {
  Shape shape = data.set && !data.set->fields().empty() ? data.set->fields()[0].shape : Shape{};
  shape.insert(0, 1);
  return shape;
}

// Fills in what is shown of the sample, which the loader reuses.
void show(WrongExample& wrong, const Tensor& samples, std::int64_t row, const Shape& in_file) {
  const NoGrad no_grad;
  Tensor one = narrow(samples, 0, row, 1);
  if (!looks_like_images(one) && one.numel() == in_file.numel()) one = reshape(one, in_file);
  if (looks_like_images(one)) {
    wrong.png = to_png(contact_sheet(one, 1));
  } else {
    wrong.values = first_values(one);
  }
}

bool surer(const WrongExample& a, const WrongExample& b) { return a.confidence > b.confidence; }

}  // namespace

std::string Examined::name(std::int64_t label) const {
  const auto index = static_cast<std::size_t>(label);
  return index < class_names.size() ? class_names[index] : std::to_string(label);
}

Examined examine(const PreparedJob& prepared, std::size_t most) {
  const EvaluationData data = evaluation_data(prepared);
  check(!data.empty(), "[report] expected data with a part to evaluate on, got none");
  check(prepared.objective_name == "classify" && prepared.data.fields.size() > 1 &&
            prepared.data.fields[1].shape.rank() == 0,
        "[report] expected one class for each sample, got the objective {}", prepared.objective_name);
  EvaluatorOptions how;
  how.metrics = prepared.metrics;
  how.loader = evaluation_loader(prepared);
  how.precision = prepared.job.train.precision;
  Evaluator evaluator(*prepared.net, prepared.objective, how);
  const auto loader = make_evaluation_loader(prepared);
  const Shape in_file = shape_in_file(data);
  Examined found{.class_names = prepared.data.splits.class_names};
  while (const Batch* batch = loader->next()) {
    const std::span<const Tensor> fields(batch->fields.data(), batch->fields.size());
    const Tensor logits = evaluator.predict(fields);
    found.confusion.add({logits, fields[1], fields, 0, 0}, "report");
    const std::int64_t classes = logits.size(-1);
    for (std::int64_t row = 0; row < batch->size; ++row) {
      const std::int64_t truth = fields[1].data<std::int64_t>()[row];
      const Guess guess = guess_of(logits.data<float>() + row * classes, classes);
      if (truth < 0 || guess.predicted == truth) continue;
      WrongExample wrong{found.samples + row, truth, guess.predicted, guess.confidence, "", ""};
      if (found.wrong.size() == most && (most == 0 || !surer(wrong, found.wrong.back()))) continue;
      show(wrong, fields[0], row, in_file);
      found.wrong.insert(std::upper_bound(found.wrong.begin(), found.wrong.end(), wrong, surer), std::move(wrong));
      if (found.wrong.size() > most) found.wrong.pop_back();
    }
    found.samples += batch->size;
  }
  return found;
}

}  // namespace starling::train
