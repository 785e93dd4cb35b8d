#include "starling/data/loading/data_marks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::int64_t kSamples = 8;

// Mean and largest absolute value of the finite elements.
nlohmann::json marks_of(const Tensor& field) {
  double sum = 0, largest = 0;
  std::int64_t count = 0;
  for (const double value : field.to_vector()) {
    if (!std::isfinite(value)) continue;
    sum += value;
    largest = std::max(largest, std::abs(value));
    ++count;
  }
  return {count == 0 ? 0.0 : sum / static_cast<double>(count), largest};
}

nlohmann::json marks_of_sample(const Dataset& data, std::int64_t row) {
  TensorList out;
  for (auto type : data.fields()) {
    type.shape.insert(0, 1);
    out.push_back(empty(type.shape, type.dtype));
  }
  nlohmann::json marks = nlohmann::json::array();
  try {
    data.gather({&row, 1}, {out.data(), out.size()});
  } catch (const std::exception&) {
    return nullptr;  // the error is reported when training asks for the sample
  }
  for (const auto& field : out) marks.push_back(marks_of(field));
  return marks;
}

// Computed values (decoders, fused arithmetic) may differ between machines; copied ones never do.
double tolerance_of(const TensorType& type) {
  const bool made = is_float(type.dtype) || type.dtype == DType::u8;
  return made && type.shape.numel() > 1 ? 1e-2 : 1e-6;
}

}  // namespace

nlohmann::json marks_of(const Dataset& data) {
  nlohmann::json fields = nlohmann::json::array(), tolerances = nlohmann::json::array();
  for (const auto& type : data.fields()) {
    fields.push_back(to_string(type));
    tolerances.push_back(tolerance_of(type));
  }
  std::set<std::int64_t> rows;
  for (std::int64_t i = 0; i < kSamples; ++i) rows.insert(i * (data.size() - 1) / (kSamples - 1));
  nlohmann::json samples = nlohmann::json::array();
  for (const std::int64_t row : rows) samples.push_back({{"sample", row}, {"marks", marks_of_sample(data, row)}});
  return {{"fields", fields}, {"tolerances", tolerances}, {"samples", samples}};
}

std::string difference_of_marks(const nlohmann::json& saved, const nlohmann::json& now) {
  const auto types = [](const nlohmann::json& marks) {
    return fmt::format("{}", fmt::join(marks.at("fields").get<std::vector<std::string>>(), ", "));
  };
  if (types(saved) != types(now)) return fmt::format("fields {} instead of {}", types(now), types(saved));
  const auto tolerances = now.at("tolerances").get<std::vector<double>>();
  const auto& before = saved.at("samples");
  const auto& after = now.at("samples");
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    const auto& a = before.at(i).at("marks");
    const auto& b = after.at(i).at("marks");
    if (a.is_null() || b.is_null()) continue;
    for (std::size_t f = 0; f < tolerances.size(); ++f) {
      const auto was = a.at(f).get<std::vector<double>>(), is = b.at(f).get<std::vector<double>>();
      const double most = tolerances[f] * std::max(was.at(1), is.at(1));
      if (std::abs(was.at(0) - is.at(0)) <= most && std::abs(was.at(1) - is.at(1)) <= most) continue;
      return fmt::format("field {} of sample {} with mean {:.6g} and largest value {:.6g} instead of {:.6g} and {:.6g}",
                         f, after.at(i).at("sample").get<std::int64_t>(), is.at(0), is.at(1), was.at(0), was.at(1));
    }
  }
  return "";
}

}  // namespace starling::data
