#include "starling/runtime/verify/verify.h"

#include <algorithm>
#include <tuple>

#include "starling/base/error.h"
#include "starling/runtime/verify/verify_run.h"

namespace starling::runtime {
namespace {

// The least precise float dtype that the program computes in.
DType coarsest(const graph::Graph& graph) {
  DType found = DType::f64;
  for (const auto& value : graph.values()) {
    if (value.type.shape.rank() == 0) continue;  // scalars such as learning rates are f32 in any program
    if (is_float(value.type.dtype)) found = std::max(found, value.type.dtype);
  }
  return found;
}

double default_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 1e-5 : 1e-2; }

// Unit roundoff: half a unit in the last place.
double rounding_of(DType dtype) {
  return dtype == DType::f64 ? 1.2e-16 : dtype == DType::f32 ? 6e-8 : dtype == DType::f16 ? 5e-4 : 4e-3;
}

class Verification {
 public:
  Verification(const graph::TraceFn& f, std::span<const Tensor> arguments, const VerifyOptions& options)
      : options_(options), step_(f, arguments, options.threads) {
    const DType dtype = coarsest(step_.graph());
    report_.tolerance = options.tolerance > 0 ? options.tolerance : default_tolerance(dtype);
    report_.fp64_tolerance = options.fp64_tolerance > 0 ? options.fp64_tolerance : 1e4 * report_.tolerance;
  }

  VerifyReport run() {
    eager_ = step_.eager();
    if (options_.fp64) doubled_ = step_.doubled();
    const Outcome compiled = step_.executed(step_.passed(options_.passes));
    report_.rows = compare(compiled);
    const auto differing = [](const VerifyRow& row) { return row.differs; };
    if (std::any_of(report_.rows.begin(), report_.rows.end(), differing)) find_fault();
    return std::move(report_);
  }

 private:
  void find_fault() {
    report_.fault = bisect(step_, options_.passes, [&](const Outcome& outcome, VerifyFault& fault) {
      for (const auto& row : compare(outcome)) {
        if (!row.differs) continue;
        fault.row = row.name;
        fault.distance = row.compiled_eager;
        return true;
      }
      return false;
    });
    if (report_.fault.stage.empty()) report_.fault.stage = "unknown";
  }

  std::vector<VerifyRow> compare(const Outcome& outcome) const {
    std::vector<VerifyRow> rows;
    for (std::size_t i = 0; i < eager_.outputs.size(); ++i) {
      VerifyRow row{.name = i < options_.outputs.size() ? options_.outputs[i] : fmt::format("output {}", i)};
      const Tensor wide = options_.fp64 ? doubled_.outputs[i] : Tensor();
      judge(
          row, [](const Tensor& a, const Tensor& b) { return relative_distance(a, b); }, outcome.outputs[i],
          eager_.outputs[i], wide);
      rows.push_back(std::move(row));
    }
    for (std::size_t i = 0; i < eager_.variables.size(); ++i) {
      if (!step_.assigned()[i]) continue;
      VerifyRow row{.name = step_.graph().variables[i].name, .is_variable = true};
      const Tensor& before = step_.before()[i];
      const double room = is_float(before.dtype()) ? rounding_of(before.dtype()) / report_.tolerance : 0;
      const Tensor wide = options_.fp64 ? doubled_.variables[i] : Tensor();
      judge(
          row, [&](const Tensor& a, const Tensor& b) { return update_distance(a, b, before, room); },
          outcome.variables[i], eager_.variables[i], wide);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  template <class Distance>
  void judge(VerifyRow& row, const Distance& distance, const Tensor& compiled, const Tensor& eager,
             const Tensor& wide) const {
    row.compiled_eager = distance(compiled, eager);
    row.differs = row.compiled_eager > report_.tolerance;
    if (!wide.defined()) return;
    row.eager_fp64 = distance(eager, wide);
    row.compiled_fp64 = distance(compiled, wide);
    row.doubtful = row.eager_fp64 > report_.fp64_tolerance;
    if (!row.doubtful && row.compiled_fp64 <= options_.rounding * row.eager_fp64) row.differs = false;
  }

  VerifyOptions options_;
  VerifiedStep step_;
  Outcome eager_, doubled_;
  VerifyReport report_;
};

std::string verdict(const VerifyRow& row) {
  if (row.differs && row.doubtful) return "DIFFERS, eager is far from fp64 too";
  if (row.differs) return "DIFFERS";
  return row.doubtful ? "eager is far from fp64" : "ok";
}

}  // namespace

bool VerifyReport::ok() const {
  return std::none_of(rows.begin(), rows.end(), [](const VerifyRow& row) { return row.differs || row.doubtful; });
}

std::string VerifyReport::print(std::size_t most_rows) const {
  std::vector<VerifyRow> shown = rows;
  const auto badness = [](const VerifyRow& row) {
    return std::tuple(row.differs, row.doubtful, row.compiled_eager, row.eager_fp64);
  };
  if (shown.size() > most_rows)
    std::stable_sort(shown.begin(), shown.end(),
                     [&](const VerifyRow& a, const VerifyRow& b) { return badness(a) > badness(b); });
  const std::size_t count = std::min(shown.size(), most_rows);
  std::size_t width = std::string_view("relative L2").size();
  for (std::size_t i = 0; i < count; ++i) width = std::max(width, shown[i].name.size());
  std::string text = fmt::format("{:<{}} {:>15} {:>11} {:>14}\n", "relative L2", width, "compiled-eager", "eager-fp64",
                                 "compiled-fp64");
  for (std::size_t i = 0; i < count; ++i) {
    const VerifyRow& row = shown[i];
    text += fmt::format("{:<{}} {:>15.2e} {:>11.2e} {:>14.2e}  {}\n", row.name, width, row.compiled_eager,
                        row.eager_fp64, row.compiled_fp64, verdict(row));
  }
  if (shown.size() > most_rows) text += fmt::format("and {} more, none worse\n", shown.size() - most_rows);
  text += fmt::format("tolerance {:.1e} (compiled-eager), {:.1e} (eager-fp64)\n", tolerance, fp64_tolerance);
  if (!fault.stage.empty()) {
    text += fmt::format("first wrong after: {} ({} differs by {:.2e})\n", fault.stage, fault.row, fault.distance);
    if (!fault.node.empty()) text += fmt::format("first node that differs: {}\n", fault.node);
  }
  return text;
}

VerifyReport verify_step(const graph::TraceFn& f, std::span<const Tensor> arguments, const VerifyOptions& options) {
  return Verification(f, arguments, options).run();
}

}  // namespace starling::runtime
