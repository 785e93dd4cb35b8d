#pragma once

#include <memory>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/dist/codec/codec.h"
#include "starling/dist/ps/keys.h"
#include "starling/graph/graph.h"
#include "starling/runtime/program.h"

namespace starling::dist {

// Gradient δᵀ·a of a dense layer that a program leaves as its factors, in variables of its own.
struct PushedFactors {
  Tensor parameter;
  Tensor errors, inputs;  // δ [rows, outputs], a [rows, inputs]
};

// True if servers get fewer bytes as the factors of a gradient than as their product: every server that holds rows of
// the tensor gets the errors of these and all inputs. Its keys must be whole rows.
bool fewer_as_factors(const ps::KeyTable& keys, std::size_t tensor, const FactorShape& shape);

// Builds a rank's own program whose products for gradient slots stay factors where `wanted` says so: the product is not
// made, and the slot is left as it is. What the last program that ran has left is put into `left`, which must outlive
// the program.
using WantedFactors = FunctionRef<bool(const Tensor& parameter, const FactorShape& shape)>;
std::unique_ptr<runtime::Program> program_with_factors(const graph::Graph& global, const Container& container,
                                                       const runtime::BuildOptions& options, WantedFactors wanted,
                                                       std::vector<PushedFactors>& left);

}  // namespace starling::dist
