#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/data/formats/csv.h"
#include "starling/data/raw/raw.h"
#include "starling/data/raw/table_reader.h"
#include "starling/ops/api/creation.h"

namespace starling::cli {
namespace {

// Largest finite number of a floating dtype.
double largest(DType dtype) {
  if (dtype == DType::f16) return 65504;
  return dtype == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

// Rows that are the network's input as they are, for models that do not name columns.
PredictInput read_plain_rows(const std::string& path, const ModelSignature& signature, bool header) {
  data::CsvOptions options;
  options.header = header;
  data::CsvReader reader = data::CsvReader::open(path, options);
  const DType dtype = signature.inputs[0].dtype;
  std::vector<double> values;
  std::int64_t rows = 0;
  while (const auto* cells = reader.next()) {
    for (const auto& cell : *cells) {
      double value = 0;
      check(data::parse_number(cell, value), "[predict] {}: expected numbers, got '{}'{}", reader.where(), cell,
            rows == 0 ? " (give --csv-header if it has a header row)" : "");
      check(!is_float(dtype) || std::isinf(value) || std::abs(value) <= largest(dtype),
            "[predict] {}: expected numbers that {} holds, got '{}' in column {}", reader.where(), name(dtype), cell,
            values.size() % cells->size() + 1);
      values.push_back(value);
    }
    ++rows;
  }
  const auto columns = rows > 0 ? static_cast<std::int64_t>(values.size()) / rows : 0;
  check(rows > 0, "[predict] {}: expected at least one row, got none", path);
  const Tensor table = from_doubles(values, {rows, columns}, signature.inputs[0].dtype);
  return {as_samples(table, signature.inputs[0].sample, path), numbered(path, rows)};
}

}  // namespace

PredictInput read_table(const std::string& path, const ModelSignature& signature, bool csv_header) {
  if (data::raw_kind(signature.raw) != "table") return read_plain_rows(path, signature, csv_header);
  const Tensor rows = data::TableReader::from_json(signature.raw).read(path);
  return {transformed(rows, signature, path), numbered(path, rows.size(0))};
}

}  // namespace starling::cli
