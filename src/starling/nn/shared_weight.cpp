#include "starling/nn/shared_weight.h"

#include "starling/base/error.h"
#include "starling/ops/def/argument_error.h"

namespace starling::nn {

void share_weight(Tensor& own, const Tensor& parameter, std::string_view layer) {
  if (parameter.shape() != own.shape() || parameter.dtype() != own.dtype() || parameter.device() != own.device())
    throw ArgumentError(fmt::format("[{}] expected a weight {} on {} in the place of the own, got {} on {}", layer,
                                    to_string(own.type()), to_string(own.device()), to_string(parameter.type()),
                                    to_string(parameter.device())));
  check(!parameter.traced() && !(parameter.impl()->extra && parameter.impl()->extra->node),
        "[{}] expected a parameter of another module as the weight, got what an op has made: assign the values, "
        "layer.weight.assign(value)",
        layer);
  check(!is_float(own.dtype()) || parameter.requires_grad() || !parameter.name().empty(),
        "[{}] expected a parameter of another module as the weight, got a tensor that is none, such as a detached one: "
        "assign the values, layer.weight.assign(value)",
        layer);
  own = parameter;
}

}  // namespace starling::nn
