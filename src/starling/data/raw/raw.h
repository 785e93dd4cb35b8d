#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Readers of raw input: what turns a user's file or row into one sample, before the transforms. Sources use them while
// training and describe them in DataSplits::raw; saved models keep that description and predictions read it back:
//   {"kind": "pictures", …}  raw/picture_reader.h
//   {"kind": "table", …}     raw/table_reader.h
//   {"kind": "texts", …}     raw/text_reader.h
//   {"kind": "array", "dtype": "f64", "shape": [28, 28]}  a sample of an array as it lies in its file
// Descriptions come with models from anywhere: from_json() checks sizes and names and throws "[model] …".
namespace starling::data {

// Kind of a description; empty if it is none.
inline std::string raw_kind(const nlohmann::json& raw) {
  if (!raw.is_object() || !raw.contains("kind") || !raw["kind"].is_string()) return "";
  return raw["kind"].get<std::string>();
}

}  // namespace starling::data
