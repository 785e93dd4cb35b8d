#pragma once

#include <nanobind/nanobind.h>

#include "starling/tensor/tensor.h"
#include "tensor_object.h"

// Bindings of the library, a file per subject; the package python/starling gives them their Python face.
namespace starling::python {

namespace nb = nanobind;

void bind_types(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_tensor_operators(nb::class_<Tensor>& tensor);
void bind_arrays(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_indexing(nb::class_<Tensor>& tensor);
void bind_op_table(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_shapes(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_network_ops(nb::module_& m);
void bind_losses(nb::module_& m);
void bind_indices(nb::module_& m);
void bind_random(nb::module_& m);
void bind_random_state(nb::module_& m);
void bind_linear_algebra(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_modules(nb::module_& m);
void bind_python_module(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_layer_kinds(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_data(nb::module_& m);
void bind_training(nb::module_& m);
void bind_saved_models(nb::module_& m);
void bind_checkpoints(nb::module_& m);
void bind_rank_checkpoints(nb::module_& m);
void bind_ranks(nb::module_& m);
void bind_reducer(nb::module_& m);
void bind_control(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_sessions(nb::module_& m);

}  // namespace starling::python
