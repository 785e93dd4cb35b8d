#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/dist/strategy/programs/planned_step.h"

namespace starling::cli {

// Parameter and what a rank stores of it.
struct PlacedParameter {
  std::string name;
  TensorType whole;
  Shape here;
  dist::AxisCuts cuts;
};

std::string dotted(std::string scope);                      // "block0.attend" of "block0/attend"
std::string cuts_text(const dist::AxisCuts& cuts);          // "model: dimension 0 in 3 blocks"; "whole"
std::string reason_text(const dist::PlannedExchange& one);  // "terms to whole, for add in block0"

// Picture of a step on a mesh as SVG: a row for each module in the order of the forward pass, with its parameters as
// bars of as many pieces as workers share them, that of the rank in full colour, its result, and the exchanges of both
// passes.
std::string layout_picture(const std::string& title, const MeshShape& mesh, int rank,
                           const std::vector<PlacedParameter>& parameters, const dist::PlannedStep& step);

}  // namespace starling::cli
