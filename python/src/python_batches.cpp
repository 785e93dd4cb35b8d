#include "python_batches.h"

#include <fmt/format.h>

#include <cstring>

#include "convert.h"
#include "dense.h"
#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::python {
namespace {

using data::DataPosition;

struct PythonPlan final : data::BatchPlan {
  std::vector<Tensor> fields;  // as Python made them
  std::int64_t first = 0;      // row of this rank's first sample
};

class PythonBatches final : public data::BatchSource {
 public:
  explicit PythonBatches(PythonBatchesOptions options);
  ~PythonBatches() override;
  std::vector<TensorType> fields() const override { return fields_; }
  std::int64_t samples_per_epoch() const override { return options_.samples; }
  std::int64_t largest_batch() const override { return options_.batch; }
  std::unique_ptr<data::BatchPlan> new_plan() const override { return std::make_unique<PythonPlan>(); }
  void plan(data::BatchPlan& plan, const std::atomic<bool>& stop) override;
  void make(const data::BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
            data::MakeScratch& scratch) const override;
  void keys(const data::BatchPlan& plan, std::int64_t begin, std::int64_t end, const data::MakeScratch& scratch,
            std::vector<SampleKey>& into) const override;
  std::string describe(const data::BatchPlan& plan, std::int64_t i) const override;
  void seek(DataPosition position) override;
  nlohmann::json state(std::span<const data::BatchPlan* const> undone, DataPosition at) const override;
  DataPosition restore(const nlohmann::json& state) override;

 private:
  struct Made {
    std::vector<Tensor> fields;
    std::int64_t total = 0;
  };
  std::optional<Made> next_made();
  void expect_like_the_first(const Made& made) const;

  PythonBatchesOptions options_;
  DataPosition position_{};
  nb::object batches_;         // of the epoch under way; null before its first batch
  std::optional<Made> first_;  // read ahead for the types of its fields
  std::vector<TensorType> fields_;
};

PythonBatches::PythonBatches(PythonBatchesOptions options) : options_(std::move(options)) {
  first_ = next_made();
  check(first_.has_value(), "[data] expected batches, got none");
  for (const Tensor& field : first_->fields) {
    check(field.rank() > 0, "[data] expected fields with a first axis of samples, got {}", to_string(field.type()));
    TensorType type = field.type();
    type.shape.erase(0);
    fields_.push_back(type);
  }
}

PythonBatches::~PythonBatches() {
  if (!python_is_there()) {
    batches_.release();
    return;
  }
  const nb::gil_scoped_acquire gil;
  batches_.reset();
}

// Needs the GIL.
std::optional<PythonBatches::Made> PythonBatches::next_made() {
  if (!batches_.is_valid()) batches_ = (*options_.from)(position_.epoch, position_.sample);
  const nb::object item = nb::steal(PyIter_Next(batches_.ptr()));
  if (!item.is_valid()) {
    if (PyErr_Occurred()) throw nb::python_error();
    batches_.reset();
    return std::nullopt;
  }
  Made made{{}, nb::cast<std::int64_t>(item[1])};
  for (nb::handle field : nb::object(item[0]))
    made.fields.push_back(dense(to_tensor(field, std::nullopt, true).detach()));
  return made;
}

void PythonBatches::expect_like_the_first(const Made& made) const {
  check(made.fields.size() == fields_.size(), "[data] expected {} fields in every batch, got {}", fields_.size(),
        made.fields.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    TensorType want = fields_[f];
    const TensorType got = made.fields[f].type();
    want.shape.insert(0, got.shape.rank() > 0 ? got.shape[0] : 0);
    check(got == want && got.shape[0] == made.fields[0].shape()[0],
          "[data] expected {} rows of {} as field {} of every batch, as the first begins, got {}",
          made.fields[0].shape()[0], to_string(fields_[f]), f, to_string(got));
  }
}

void PythonBatches::plan(data::BatchPlan& plan, const std::atomic<bool>&) {
  const nb::gil_scoped_acquire gil;
  auto& to = static_cast<PythonPlan&>(plan);
  to.fields.clear();
  const auto made = first_ ? std::exchange(first_, std::nullopt) : next_made();
  to.begin = position_;
  to.ends_epoch = !made;
  to.size = to.total = to.first = 0;
  if (made) {
    expect_like_the_first(*made);
    const std::int64_t rows = made->fields.empty() ? 0 : made->fields[0].shape()[0];
    const Piece mine = options_.mine ? options_.mine(rows) : Piece{0, rows};
    check(mine.size <= options_.batch, "[data] expected batches of at most {} samples, got {}", options_.batch, rows);
    to.fields = made->fields;
    to.first = mine.begin;
    to.size = mine.size;
    to.total = made->total;
  }
  to.after = made ? DataPosition{position_.epoch, position_.sample + to.total} : DataPosition{position_.epoch + 1, 0};
  position_ = to.after;
}

void PythonBatches::make(const data::BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
                         data::MakeScratch&) const {
  const auto& from = static_cast<const PythonPlan&>(plan);
  for (std::size_t f = 0; f < out.size(); ++f) {
    const auto row = static_cast<std::int64_t>(bytes_of(fields_[f]));
    const auto bytes = static_cast<std::size_t>((end - begin) * row);
    const auto* data = static_cast<const std::byte*>(from.fields[f].raw()) + (from.first + begin) * row;
    if (bytes > 0) std::memcpy(out[f].raw(), data, bytes);
  }
}

void PythonBatches::keys(const data::BatchPlan& plan, std::int64_t begin, std::int64_t end, const data::MakeScratch&,
                         std::vector<SampleKey>& into) const {
  into.clear();
  for (std::int64_t i = begin; i < end; ++i)
    into.push_back({.epoch = plan.begin.epoch, .sample = plan.begin.sample + i});
}

std::string PythonBatches::describe(const data::BatchPlan& plan, std::int64_t i) const {
  return fmt::format("sample {} of epoch {}", plan.begin.sample + i, plan.begin.epoch);
}

void PythonBatches::seek(DataPosition position) {
  if (first_ && position == position_) return;  // nothing was handed out yet
  const nb::gil_scoped_acquire gil;
  first_.reset();
  batches_.reset();
  position_ = position;
}

nlohmann::json PythonBatches::state(std::span<const data::BatchPlan* const>, DataPosition at) const {
  return {{"epoch", at.epoch}, {"sample", at.sample}};
}

DataPosition PythonBatches::restore(const nlohmann::json& state) {
  const DataPosition position{state.at("epoch").get<std::int64_t>(), state.at("sample").get<std::int64_t>()};
  seek(position);
  return position;
}

}  // namespace

std::unique_ptr<data::BatchSource> python_batches(PythonBatchesOptions options) {
  return std::make_unique<PythonBatches>(std::move(options));
}

}  // namespace starling::python
