#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/data/dataset.h"
#include "starling/data/record_reader.h"

namespace starling {

class Tokenizer;

// What a job trains and evaluates with. A split is a data set that can be asked by number, or shards to stream from, or
// not there.
struct DataSplits {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;     // null: there is none
  std::int64_t classes = 0;                // of the labels; 0: labels are no classes
  std::int64_t vocabulary = 0;             // of token ids; 0: no tokens
  std::vector<std::string> class_names{};  // may be empty
  std::shared_ptr<const Dataset> valid{};  // kept apart from train by valid_share
  std::optional<RecordShards> train_shards{};
  std::optional<RecordShards> valid_shards{};
  std::optional<RecordShards> test_shards{};
  std::int64_t target_vocabulary = 0;                   // of the ids of sequences to be written; 0: none
  std::shared_ptr<const Tokenizer> tokenizer{};         // of the tokens, or of what is read
  std::shared_ptr<const Tokenizer> target_tokenizer{};  // of what is to be written, where that has its own
};

using SourceKinds = Kinds<std::function<DataSplits()>>;  // making one is cheap, calling it reads files

// By the names that jobs use; built from the files in data/sources.
const SourceKinds& source_kinds();

}  // namespace starling
