#include "starling/cli/predict/predict_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "starling/base/file/file.h"
#include "starling/cli/cli.h"
#include "starling/data/formats/npy.h"
#include "starling/data/raw/raw.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/softmax.h"

namespace starling::cli {
namespace {

constexpr std::int64_t kMostShown = 16;  // values per line

std::span<const float> row_of(const Predictions& p, std::int64_t row) {
  const std::int64_t each = p.values.numel() / std::max<std::int64_t>(1, p.values.size(0));
  return {p.values.data<float>() + row * each, static_cast<std::size_t>(each)};
}

std::vector<std::int64_t> likeliest(std::span<const float> values, std::int64_t top) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, top))));
  return order;
}

std::string class_name(const ModelSignature& signature, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return at < signature.class_names.size() ? signature.class_names[at] : fmt::format("class {}", index);
}

std::string target_name(const ModelSignature& signature, std::size_t index) {
  return index < signature.target_names.size() ? signature.target_names[index] : fmt::format("value_{}", index);
}

// Name of a sample on a line of its own: texts are cut short and stay on the line.
std::string shown_name(const std::string& name, const ModelSignature& signature) {
  constexpr std::size_t kMost = 60;
  if (data::raw_kind(signature.raw) != "texts") return name;
  std::string line = name;
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  if (line.size() <= kMost) return line;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;  // not inside of a character
  return line.substr(0, end) + "…";
}

// Values of a sample: with the names of the targets where the model knows them all.
std::string values_text(std::span<const float> values, const ModelSignature& signature) {
  const auto shown = std::min<std::size_t>(values.size(), kMostShown);
  std::string line;
  if (signature.target_names.size() == values.size()) {
    for (std::size_t i = 0; i < shown; ++i)
      line += fmt::format("{}{} {:.6g}", i == 0 ? "" : ", ", target_name(signature, i), values[i]);
  } else {
    line = fmt::format("{:.6g}", fmt::join(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown), " "));
  }
  return shown < values.size() ? line + fmt::format(" … ({} values)", values.size()) : line;
}

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

Predictions make_predictions(const ModelSignature& signature, std::vector<std::string> names, const Tensor& output) {
  const bool classes = signature.task == "classify" && output.rank() == 2;
  const Tensor plain = output.dtype() == DType::f32 ? output : cast(output, DType::f32);
  return {std::move(names), classes ? softmax(plain) : plain, classes};
}

std::string to_text(const Predictions& p, const ModelSignature& signature, std::int64_t top) {
  std::string out;
  for (std::int64_t row = 0; row < p.values.size(0); ++row) {
    const auto values = row_of(p, row);
    std::string line;
    if (p.classes) {
      for (const auto index : likeliest(values, top)) {
        line += fmt::format("{}{} {:.4f}", line.empty() ? "" : ", ", class_name(signature, index),
                            values[static_cast<std::size_t>(index)]);
      }
    } else {
      line = values_text(values, signature);
    }
    out += fmt::format("{}: {}\n", shown_name(p.names[static_cast<std::size_t>(row)], signature), line);
  }
  return out;
}

nlohmann::ordered_json to_json(const Predictions& p, const ModelSignature& signature, std::int64_t top) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::int64_t row = 0; row < p.values.size(0); ++row) {
    const auto values = row_of(p, row);
    nlohmann::ordered_json one = {{"input", p.names[static_cast<std::size_t>(row)]}};
    if (p.classes) {
      one["classes"] = nlohmann::ordered_json::array();
      for (const auto index : likeliest(values, top)) {
        one["classes"].push_back({{"class", class_name(signature, index)},
                                  {"index", index},
                                  {"probability", values[static_cast<std::size_t>(index)]}});
      }
    } else {
      one["values"] = std::vector<float>(values.begin(), values.end());
      for (std::size_t i = 0; signature.target_names.size() == values.size() && i < values.size(); ++i)
        one["targets"][target_name(signature, i)] = values[i];
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::string to_csv(const Predictions& p, const ModelSignature& signature) {
  std::string out = "input";
  const auto each = static_cast<std::int64_t>(p.values.size(0) > 0 ? row_of(p, 0).size() : 0);
  for (std::int64_t i = 0; i < each; ++i)
    out += "," + cell(p.classes ? class_name(signature, i) : target_name(signature, static_cast<std::size_t>(i)));
  out += "\n";
  for (std::int64_t row = 0; row < p.values.size(0); ++row) {
    out += cell(p.names[static_cast<std::size_t>(row)]);
    for (const float value : row_of(p, row)) out += fmt::format(",{}", value);
    out += "\n";
  }
  return out;
}

void check_output_name(const std::string& file, const std::vector<std::string>& extensions) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) return;
  throw UsageError(
      fmt::format("[predict] expected -o with a name that ends with {}, got {}", fmt::join(extensions, " or "), file));
}

void write_predictions(const std::string& file, const Predictions& p, const ModelSignature& signature,
                       std::int64_t top) {
  check_output_name(file, array_extensions());
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".npy") {
    data::write_npy(file, p.values).value();
  } else {
    write_file_atomically(file, extension == ".csv" ? to_csv(p, signature) : to_json(p, signature, top).dump(1) + "\n")
        .value();
  }
}

}  // namespace starling::cli
