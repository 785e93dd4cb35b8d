#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/data/dataset.h"

namespace starling {

// What a job trains and evaluates with.
struct DataSplits {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;     // null: there is none
  std::int64_t classes = 0;                // of the labels; 0: labels are no classes
  std::int64_t vocabulary = 0;             // of token ids; 0: no tokens
  std::vector<std::string> class_names{};  // may be empty
};

using SourceKinds = Kinds<std::function<DataSplits()>>;  // making one is cheap, calling it reads files

// By the names that jobs use; built from the files in data/sources.
const SourceKinds& source_kinds();

}  // namespace starling
