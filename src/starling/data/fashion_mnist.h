#pragma once

#include <filesystem>

#include "starling/tensor/tensor.h"

namespace starling {

enum class Split { train, test };

struct FashionMnistOptions {
  std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";  // where Debian's dataset-fashion-mnist puts it
  float mean = 0.2860F;                                                // of the training images, scaled to [0, 1]
  float std = 0.3530F;
};

struct LabelledImages {
  Tensor images;  // f32 [n, 1, 28, 28]: (pixel / 255 - mean) / std
  Tensor labels;  // i64 [n], 0 to 9
};

// 60 000 images to train with, 10 000 to test with. Throws when the files are not there, naming the package that has
// them.
LabelledImages load_fashion_mnist(Split split, const FashionMnistOptions& options = {});

}  // namespace starling
