#include "bind.h"
#include "foreign_lock.h"
#include "refusals.h"
#include "user_line.h"

NB_MODULE(_starling, m) {
  using namespace starling::python;
  namespace nb = nanobind;
  nb::set_leak_warnings(false);  // dtypes live as long as the process, which the interpreter's end would call a leak
  m.doc() = "The compiled part of starling: import starling instead.";
  name_lines_of_python();
  let_kernels_release_the_gil();
  bind_types(m);
  bind_tensor(m);
  bind_op_table(m);
  bind_elementwise(m);
  bind_shapes(m);
  bind_reductions(m);
  bind_network_ops(m);
  bind_losses(m);
  bind_indices(m);
  bind_random(m);
  bind_random_state(m);
  bind_linear_algebra(m);
  bind_autograd(m);
  bind_compile(m);
  bind_modules(m);
  bind_python_module(m);
  bind_layers(m);
  bind_layer_kinds(m);
  bind_optimizers(m);
  bind_data(m);
  bind_training(m);
  bind_saved_models(m);
  bind_checkpoints(m);
  bind_ranks(m);
  bind_reducer(m);
  bind_control(m);
  bind_metrics(m);
  bind_sessions(m);
  tell_refusals(m);
}
