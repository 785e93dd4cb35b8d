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

// Reads an input: an image (JPEG, PNG), a folder of images, an .npy file or a .csv file. Images and byte arrays go
// through the model's transforms, after a resize if the model needs another size and its transforms do not resize;
// float arrays and CSV rows are the network's input as they are. Throws naming the file.
PredictInput read_predict_input(const std::string& path, const ModelSignature& signature, bool csv_header);

}  // namespace starling::cli
