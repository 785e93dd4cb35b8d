#pragma once

#include <string>
#include <vector>

#include "layer.h"

namespace starling::ceilings {

// A layer shape, and how often the network holds it.
struct Entry {
  std::string network;
  Layer layer;
  int count;
};

// The networks of the benchmark list, each layer shape once, in the order of the forward pass.
std::vector<Entry> networks();

}  // namespace starling::ceilings
