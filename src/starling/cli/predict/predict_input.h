#pragma once

#include <string>
#include <vector>

#include "starling/train/saved_model/signature.h"

namespace starling::cli {

// Samples for a model and their names.
struct PredictInput {
  Tensor batch;  // [n, …], the model's first input
  std::vector<std::string> names;
};

// Reads an input as the model's training data was read, if the model says how (ModelSignature::raw); else as follows.
// A picture (JPEG, PNG), a folder of them or an array of bytes goes through the model's transforms, after a resize if
// the model needs another size and its transforms do not resize; float arrays and CSV rows are the network's input as
// they are. Models of texts take a text itself, too. Throws naming the file.
PredictInput read_predict_input(const std::string& path, const ModelSignature& signature, bool csv_header);

// Names of the samples of a file: rows.csv[0], rows.csv[1], …
std::vector<std::string> numbered(const std::string& path, std::int64_t count);

// Views an array as [n, sample…], with n from the batch axis or 1 without it; any shape with the right number of
// elements a sample is accepted.
Tensor as_samples(const Tensor& array, const Shape& sample, const std::string& path);

// Applies the model's transforms to raw samples [n, …] and shapes them as the network's input.
Tensor transformed(const Tensor& raw, const ModelSignature& signature, const std::string& name);

// Samples of an array that was read from `path`.
PredictInput input_of(const Tensor& array, const std::string& path, const ModelSignature& signature);

// Inputs of each kind.
PredictInput read_pictures(const std::string& path, const ModelSignature& signature);    // a file or a folder
PredictInput read_array(const std::string& path, const ModelSignature& signature);       // .npy
PredictInput read_hdf5_input(const std::string& path, const ModelSignature& signature);  // data.h5 or data.h5:array
PredictInput read_table(const std::string& path, const ModelSignature& signature, bool csv_header);  // .csv
PredictInput read_texts(const std::string& text_or_file, const ModelSignature& signature);

}  // namespace starling::cli
