#pragma once

#include <string>
#include <vector>

#include "starling/train/saved_model/signature.h"

namespace starling::cli {

// Samples for a model and what each of them is called.
struct PredictInput {
  Tensor batch;  // [n, …] as the model's first input
  std::vector<std::string> names;
};

// Reads one input of the user's: a picture (JPEG, PNG), a folder of pictures, an .npy file or a .csv file. Pictures and
// arrays of bytes go through the model's transforms, resized first where the model asks for another size and does not
// resize itself; arrays of floats and rows of a CSV file are taken as the network's own input. Throws naming the file.
PredictInput read_predict_input(const std::string& path, const ModelSignature& signature, bool csv_header);

}  // namespace starling::cli
