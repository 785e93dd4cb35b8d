#include "starling/capi/guard.h"
#include "starling/ops/def/apply.h"
#include "starling/optim/optimizer_kinds.h"
#include "starling/train/objective.h"

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside
using starling::Tensor;
using starling::TensorList;

namespace {

// Puts a network into evaluation mode for a while, in which nobody else may use it: the mode belongs to all its
// handles.
class Evaluating {
 public:
  explicit Evaluating(starling::nn::Module& net) : net_(net), before_(net.training()) { net_.eval(); }
  ~Evaluating() { net_.train(before_); }
  Evaluating(const Evaluating&) = delete;

 private:
  starling::nn::Module& net_;
  bool before_;
};

starling::optim::Optimizer& rule_of(const starling_optimizer* optimizer) {
  return *given(optimizer, "optimizer", "an optimizer").value;
}

}  // namespace

extern "C" {

starling_status starling_optimizer_new(const char* name, starling_module* module, const char* options,
                                       starling_optimizer** made) {
  return guarded([&] {
    given(name, "optimizer", "the name of an optimizer");
    given(made, "optimizer", "a place for the optimizer");
    const starling::ConfigNode node = options_of(options, name);
    const auto make = starling::optim::optimizer_kinds().choose_named(name, node, node).make();
    const auto& net = given(module, "optimizer", "a module");
    *made = new starling_optimizer{make({{.parameters = net.value->trainable_parameters()}}), net.turn};
  });
}

void starling_optimizer_free(starling_optimizer* optimizer) { delete optimizer; }

starling_status starling_optimizer_step(starling_optimizer* optimizer) {
  return guarded([&] {
    auto& rule = rule_of(optimizer);
    const std::scoped_lock turn(*optimizer->turn);
    rule.step();
  });
}

starling_status starling_optimizer_rate(const starling_optimizer* optimizer, double* lr) {
  return guarded([&] {
    const double own = rule_of(optimizer).lr();
    given(lr, "optimizer", "a place for the rate") = own;
  });
}

starling_status starling_optimizer_set_rate(starling_optimizer* optimizer, double lr) {
  return guarded([&] { rule_of(optimizer).set_lr(lr); });
}

starling_status starling_step_new(starling_module* module, starling_optimizer* optimizer, const char* objective,
                                  starling_step** made) {
  return guarded([&] {
    given(objective, "step", "the name of an objective");
    given(made, "step", "a place for the step");
    const auto goal = starling::objective_kinds().by_name(objective).make();
    const auto& net = given(module, "step", "a module");
    const auto rule = given(optimizer, "step", "an optimizer").value;
    const auto step = [goal, net = net.value.get(), rule = rule.get()](std::span<const Tensor> fields) {
      const Tensor loss = goal->apply(*net, fields).loss;
      loss.backward();
      rule->step();
      return TensorList{loss};
    };
    *made = new starling_step{net, rule, starling::CompiledFunction(step, {})};
  });
}

starling_status starling_step_run(starling_step* step, starling_tensor* const* fields, int count, double* loss) {
  return guarded([&] {
    auto& own = given(step, "step", "a step");
    const auto in = inputs_of(fields, count, "step");
    const std::scoped_lock turn(*own.module.turn);
    const TensorList out = own.program.call(in);
    if (loss) *loss = out[0].item();
  });
}

void starling_step_free(starling_step* step) { delete step; }

starling_status starling_compile(starling_module* module, starling_function** made) {
  return guarded([&] {
    given(made, "compile", "a place for the function");
    const auto& net = given(module, "compile", "a module");
    const auto forward = [net = net.value.get()](std::span<const Tensor> in) { return (*net)(in); };
    *made = new starling_function{net, starling::CompiledFunction(forward, {})};
  });
}

starling_status starling_function_run(starling_function* function, starling_tensor* const* inputs, int count,
                                      starling_tensor** results, int capacity, int* made) {
  return guarded([&] {
    auto& own = given(function, "function", "a function");
    const auto in = inputs_of(inputs, count, "function");
    const std::scoped_lock turn(*own.module.turn);
    const Evaluating mode(*own.module.value);
    const starling::NoGrad off;
    give(own.program.call(in), results, capacity, made, "function");
  });
}

void starling_function_free(starling_function* function) { delete function; }

starling_status starling_model_save(starling_module* module, const int64_t* sample, int rank, const char* folder) {
  return guarded([&] {
    given(folder, "model", "a folder");
    const auto net = given(module, "model", "a module").value;
    const std::scoped_lock turn(*module->turn);
    const Evaluating mode(*net);
    const starling::NoGrad off;
    starling::ModelSignature signature;
    signature.inputs.push_back({.name = "input", .sample = shape_of(sample, rank, "model")});
    starling::save_model(
        folder, [&](std::span<const Tensor> in) { return (*net)(in); }, signature)
        .value();
  });
}

}  // extern "C"
