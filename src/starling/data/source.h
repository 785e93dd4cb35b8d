#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/data/datasets/dataset.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

class Tokenizer;

// Data of a job. A split is a map-style data set, or shards to stream, or absent.
struct DataSplits {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;     // null: none
  std::int64_t classes = 0;                // number of classes; 0: labels are not classes
  std::int64_t vocabulary = 0;             // number of token ids; 0: no tokens
  std::vector<std::string> class_names{};  // may be empty
  std::shared_ptr<const Dataset> valid{};  // split off from train by valid_share
  std::optional<RecordShards> train_shards{};
  std::optional<RecordShards> valid_shards{};
  std::optional<RecordShards> test_shards{};
  std::int64_t target_vocabulary = 0;                   // number of token ids of target sequences; 0: none
  std::shared_ptr<const Tokenizer> tokenizer{};         // of tokens, or of source sequences
  std::shared_ptr<const Tokenizer> target_tokenizer{};  // of target sequences, if it differs
  std::vector<std::string> target_names{};              // of the numbers to predict; may be empty
  // Means and deviations of the numbers to predict, where a network is to learn them standardised; empty: as they are.
  std::vector<double> target_means{};
  std::vector<double> target_deviations{};
  // How a file or row of the user becomes a sample, by the kinds of data/raw/raw.h; null: not described. Saved models
  // keep it, so that predictions begin with the same files as training.
  nlohmann::json raw{};
  // Transforms, by their names in jobs, that the source has already applied to its samples.
  nlohmann::json raw_transforms = nlohmann::json::array();
  std::vector<std::string> notes{};  // remarks for users on how the files were read
  std::int64_t least_label = 0;      // below 0: there are labels that are no classes
};

// How training came to read its files: columns, words and means, vocabulary, classes. Empty: nothing was learned yet.
struct Reading {
  nlohmann::json raw{};  // as in DataSplits
  std::shared_ptr<const Tokenizer> tokenizer{};
  std::vector<std::string> class_names{};
};

// Reads the files of a data set. Given a reading, it reads them the same way instead of learning one from them, so that
// a network sees other files as it saw those of its training.
class Source {
 public:
  template <std::invocable<const Reading&> F>
  Source(F read) : read_(std::move(read)) {}  // NOLINT(google-explicit-constructor)
  template <std::invocable F>
  Source(F read)  // NOLINT(google-explicit-constructor): of files that are read one way only
      : read_([read = std::move(read)](const Reading&) { return read(); }) {}

  DataSplits operator()(const Reading& as = {}) const { return read_(as); }

 private:
  std::function<DataSplits(const Reading&)> read_;
};

using SourceKinds = Kinds<Source>;  // making a source is cheap; calling it reads the files

// Data sources by their names in job files; built from the files in data/sources.
const SourceKinds& source_kinds();

}  // namespace starling::data
