#pragma once

#include <filesystem>

#include "starling/tensor/tensor.h"

namespace starling {

enum class Split { train, test };

struct FashionMnistOptions {
  std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";  // of Debian's package dataset-fashion-mnist
  float mean = 0.2860F;                                                // of the training images, scaled to [0, 1]
  float std = 0.3530F;
};

struct LabelledImages {
  Tensor images;  // f32 [n, 1, 28, 28]: (pixel / 255 - mean) / std
  Tensor labels;  // i64 [n], 0 to 9
};

// Fashion-MNIST: 60 000 training or 10 000 test images. Throws if the files are missing, naming the package to install.
LabelledImages load_fashion_mnist(Split split, const FashionMnistOptions& options = {});

}  // namespace starling
