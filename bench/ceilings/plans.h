#pragma once

#include <dnnl.hpp>
#include <vector>

#include "layer.h"

namespace starling::ceilings {

struct Plan {
  graph::Pass pass;
  dnnl::primitive_desc desc;
  int refused = 0;  // an argument the primitive has a format for and yet does not accept
};

// The primitives of a layer, forward first (the others may need what it leaves behind), for the number of threads that
// OpenMP has now. Arithmetic layers take the formats the library prefers for each pass; the others take blocked
// channels.
std::vector<Plan> plans(const Layer& layer, const dnnl::engine& engine);

}  // namespace starling::ceilings
