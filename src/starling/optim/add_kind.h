#pragma once

#include "starling/optim/optimizer_kinds.h"

namespace starling::optim {

// Registers an optimizer under the name that jobs use; O is constructed from groups and options.
template <class O, class Options>
void add_kind(OptimizerKinds& kinds, const std::string& name, std::string doc) {
  kinds.add<Options>(name, std::move(doc), [](const Options& options) -> OptimizerMaker {
    return [options](std::vector<ParameterGroup> groups) -> std::unique_ptr<Optimizer> {
      return std::make_unique<O>(std::move(groups), options);
    };
  });
}

}  // namespace starling::optim
