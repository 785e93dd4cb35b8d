#pragma once

#include <string>

#include "starling/train/report/examine.h"

namespace starling::train {

// The confusion matrix as a heat map; of many classes, the pairs that are confused most.
std::string confusion_section(const Examined& examined, const std::string& with);

// Samples that were predicted wrongly, with their pictures.
std::string wrong_section(const Examined& examined);

}  // namespace starling::train
