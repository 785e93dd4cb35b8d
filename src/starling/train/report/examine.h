#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/train/confusion.h"
#include "starling/train/job/prepared_job.h"

namespace starling::train {

// A sample whose class was predicted wrongly.
struct WrongExample {
  std::int64_t index = 0;  // in the evaluated part, from 0
  std::int64_t truth = 0;
  std::int64_t predicted = 0;
  double confidence = 0;  // probability of the predicted class
  std::string png{};      // picture of the sample; empty: it is none
  std::string values{};   // instead of a picture: its first numbers
};

struct Examined {
  std::int64_t samples = 0;
  Confusion confusion{};
  std::vector<std::string> class_names{};
  std::vector<WrongExample> wrong{};           // the most confident first
  std::string name(std::int64_t label) const;  // of a class, or its number
};

// Evaluates the network of a job on the part that its evaluations use, sample by sample, and keeps the `most` wrong
// predictions that it was surest of. Throws if the job is not about classes with one label a sample.
Examined examine(const PreparedJob& prepared, std::size_t most);

}  // namespace starling::train
