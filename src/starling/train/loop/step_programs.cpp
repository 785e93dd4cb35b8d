#include "starling/train/loop/step_programs.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/dist/strategy/programs/step_parts.h"
#include "starling/dist/strategy/servers/served_strategy.h"
#include "starling/graph/tracer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/optim/clip.h"
#include "starling/train/loop/activations.h"
#include "starling/train/loop/autocast.h"

namespace starling::train {
namespace {

constexpr const char* kTheLoss = "the loss";  // in messages, where gradients have the names of their parameters

// True if a loss that is not finite leaves its step out before an update that the strategy makes itself; elsewhere it
// ends the run. Servers have nothing of a portion whose loss ends it; procedures refuse such points themselves.
bool leaves_out_bad_losses(const StepOptions& options) {
  const auto* served = dynamic_cast<const dist::ServedStrategy*>(options.strategy.get());
  return options.non_finite == NonFinite::skip ||
         (options.non_finite != NonFinite::ignore && served != nullptr && !served->rule().procedure);
}

Tensor named_scalar(const char* name, double value, Device device) {
  Tensor scalar = to(from_doubles({&value, 1}, {}), device);
  scalar.set_name(name);
  return scalar;
}

Device device_of(const nn::Module& net) {
  const auto parameters = net.parameters();
  return parameters.empty() ? kCpu : parameters.front().device();
}

// True if gradients are checked: no rank may continue while others stop. On a GPU a look would make the host wait
// for every step: losses and checkpoints tell there. Workers of servers look by themselves, also at what travels in
// place of gradients.
bool looks_at_gradients(const StepOptions& options, Device device) {
  if (options.non_finite == NonFinite::ignore || options.precision == Precision::f16 || device != kCpu) return false;
  const auto* ranks = dynamic_cast<const dist::RankStrategy*>(options.strategy.get());
  if (dynamic_cast<const dist::ServedStrategy*>(ranks) != nullptr) return false;
  const bool alone = !options.strategy || (ranks && ranks->world() == 1);
  if (options.non_finite == NonFinite::automatic) return !alone && ranks && !ranks->lockstep();
  return !alone || options.non_finite == NonFinite::skip || options.non_finite == NonFinite::rollback;
}

struct Forward {
  Objective::Outputs made;
  std::vector<std::pair<std::string, Tensor>> activations;
};

Forward run_forward(const Objective& objective, nn::Module& net, std::span<const Tensor> in, Precision precision,
                    bool watch) {
  Forward forward;
  std::optional<Activations> activations;
  if (watch) activations.emplace();
  {
    const Autocast autocast(precision);
    forward.made = objective.apply(net, in);
  }
  if (activations) forward.activations = activations->take();
  Tensor& loss = forward.made.loss;
  if (loss.dtype() != DType::f32) loss = cast(loss, DType::f32);
  return forward;
}

// Strategy of the programs that a step is made of, which may keep gradients local between them and update what is
// stored in pieces; null: gradients and updates are this rank's own.
std::shared_ptr<runtime::Strategy> parts_of(const std::shared_ptr<runtime::Strategy>& strategy,
                                            const std::shared_ptr<dist::RankStrategy>& ranks) {
  if (const auto* threads = dynamic_cast<const DataParallel*>(strategy.get())) return threads->parts();
  if (!ranks || !ranks->global_program()) return nullptr;
  return std::make_shared<dist::StepParts>(ranks);
}

}  // namespace

StepPrograms::StepPrograms(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective,
                           const StepOptions& options)
    : net_(net),
      optimizer_(optimizer),
      objective_(std::move(objective)),
      options_(options),
      ranks_(std::dynamic_pointer_cast<dist::RankStrategy>(options.strategy)),
      global_(ranks_ && ranks_->global_program()),
      exchanges_(ranks_ && ranks_->exchanges_gradients()),
      split_(options.accumulate > 1 || exchanges_),
      parts_(split_ ? parts_of(options.strategy, ranks_) : nullptr),
      device_(device_of(net)),
      judges_(looks_at_gradients(options, device_)),
      inverse_(named_scalar("trainer.gradient_factor", 1, device_)),
      slow_(options.slow) {
  if (options.precision == Precision::f16) scaler_.emplace();
  if (options.copies && !options.strategy && !split_ && !scaler_ && options.clip_norm == 0 &&
      options.non_finite != NonFinite::skip)
    late_.emplace(options.copies);
  check(!exchanges_ || !ranks_->updates() || (!scaler_ && options.clip_norm == 0 && options.clip_value == 0),
        "[train] expected neither clipping nor f16 with {}, which makes the updates itself, got one of them",
        ranks_ ? ranks_->name() : "");
}

std::vector<std::pair<std::string, Tensor>> StepPrograms::state() const {
  return scaler_ ? scaler_->state() : std::vector<std::pair<std::string, Tensor>>{};
}

// Traces a step: returns the loss and the requested outputs. Kind::backward leaves gradients in the parameters as sums
// over samples, which the update divides by the weight of all batches.
TensorList StepPrograms::trace(std::span<const Tensor> in, const StepWants& wants, Kind kind, Returned& returned) {
  returned = {};
  const auto [made, activations] = run_forward(*objective_, net_, in, options_.precision, wants.activations);
  Tensor loss = made.loss;
  // Exchanged gradients are means over this rank's rows; those of several batches are summed first.
  if (kind == Kind::backward && !(exchanges_ && options_.accumulate == 1)) {
    const double share = 1 / static_cast<double>(options_.batch);  // keeps gradients in the range of those of a mean
    const auto samples = static_cast<double>(in[0].size(0));
    loss = made.weight.defined() ? mul(loss, mul(made.weight.detach(), share)) : mul(loss, samples * share);
  }
  (scaler_ ? scaler_->scale(loss) : loss).backward();
  TensorList out{made.loss.detach()};
  const auto also = [&](const Tensor& value) { out.push_back(value.detach()); };
  if ((returned.weight = made.weight.defined())) also(made.weight);
  if ((returned.prediction = wants.prediction && made.prediction.defined())) also(made.prediction);
  for (const auto& [name, value] : activations) {
    returned.activations.push_back(name);
    also(value);
  }
  if (kind == Kind::backward) {
    if (takes_rows()) give_rows(out, returned);
    default_generator().next_step();
  } else {
    returned.wants_gradients = wants.gradients;
    finish(out, returned, made.loss.detach());
  }
  return out;
}

// Gradient slots are dense. For strategies that take rows, row-sparse gradients of a single batch leave the program as
// results instead.
bool StepPrograms::takes_rows() const { return exchanges_ && options_.accumulate == 1 && ranks_->takes_rows(); }

void StepPrograms::give_rows(TensorList& out, Returned& returned) const {
  for (const auto& [name, parameter] : net_.named_parameters()) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || !is_row_sparse(gradient)) continue;
    returned.row_gradients.push_back(name);
    out.push_back(rows_of(gradient).detach());
    out.push_back(row_values(gradient).detach());
    parameter.set_grad(Tensor());
  }
}

void StepPrograms::put_rows(const TensorList& out, const Returned& returned, std::size_t next) const {
  if (returned.row_gradients.empty()) return;
  std::size_t given = 0;
  for (const auto& [name, parameter] : net_.named_parameters()) {
    if (given == returned.row_gradients.size() || name != returned.row_gradients[given]) continue;
    parameter.set_grad(row_sparse(out[next + 2 * given], out[next + 2 * given + 1], parameter.shape()));
    ++given;
  }
}

// One finiteness flag per gradient. Gradients of several ranks are already summed here, so that all ranks see a bad
// value of one, without further communication.
Tensor StepPrograms::judge(Returned& returned, const Tensor& loss) const {
  TensorList flags;
  const auto look = [&](const std::string& name, const Tensor& value) {
    returned.judged.push_back(name);
    flags.push_back(all(isfinite(value)));
  };
  // Only checked for `skip`: otherwise a non-finite loss ends the run anyway.
  if (options_.non_finite == NonFinite::skip && loss.defined()) look(kTheLoss, loss);
  for (const auto& [name, parameter] : net_.named_parameters()) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) look(fmt::format("'{}'", name), is_row_sparse(gradient) ? row_values(gradient) : gradient);
  }
  return flags.empty() ? Tensor() : stack(flags);
}

// From the parameters' gradients to the update, which is skipped if they are not finite. `loss` may be undefined.
void StepPrograms::finish(TensorList& out, Returned& returned, const Tensor& loss) {
  const NoGrad no_grad;
  const auto parameters = net_.parameters();
  Tensor skip = scaler_ ? scaler_->unscale(parameters) : Tensor();
  const Tensor finite = judges_ ? judge(returned, loss) : Tensor();
  if (finite.defined()) skip = logical_not(all(finite));
  if (returned.wants_gradients) {
    for (const auto& [name, parameter] : net_.named_parameters()) {
      if (!parameter.grad().defined()) continue;
      returned.gradients.push_back(name);
      out.push_back(dense(parameter.grad()).detach());
    }
  }
  if (options_.clip_value > 0) optim::clip_gradients(parameters, options_.clip_value);
  if ((returned.norm = options_.clip_norm > 0))
    out.push_back(optim::clip_gradient_norm(parameters, options_.clip_norm).detach());
  if (!skip.defined()) return optimizer_.step();
  optimizer_.step(skip);
  if (scaler_) scaler_->update(skip);
  returned.skip = scaler_.has_value();
  out.push_back(scaler_ ? skip : finite);
}

StepPrograms::Program& StepPrograms::find(const StepWants& wants, Kind kind) {
  const int key = (kind == Kind::whole ? 0 : 8) + (wants.gradients && kind == Kind::whole ? 4 : 0) +
                  (wants.activations ? 2 : 0) + (wants.prediction ? 1 : 0);
  Program& program = programs_[key];
  if (program.function) return program;
  program.returned = std::make_shared<Returned>();
  program.function = std::make_unique<CompiledFunction>(
      [this, wants, kind, returned = program.returned](std::span<const Tensor> in) {
        return trace(in, wants, kind, *returned);
      },
      CompileOptions{.threads = options_.threads, .strategy = parts_ ? parts_ : options_.strategy});
  return program;
}

void StepPrograms::begin(const StepWants& wants, std::int64_t step) {
  wants_ = wants;
  step_ = step;
  result_ = {};
  loss_sum_ = 0;
  if (ranks_) ranks_->before_step(step);
}

void StepPrograms::add(const Batch& batch) {
  if (ranks_ && !global_ && (batch.size == 0 || ranks_->closed(step_))) return;
  Program& program = find(wants_, split_ ? Kind::backward : Kind::whole);
  std::span<const Tensor> fields(batch.fields.data(), batch.fields.size());
  if (device_ != kCpu && !batch.placed.empty()) {
    fields = {batch.placed.data(), batch.placed.size()};
  } else if (device_ != kCpu) {
    moved_.clear();
    for (const auto& field : fields) moved_.push_back(to(field, device_));
    fields = moved_;
  }
  const std::int64_t rows = global_ ? ranks_->program_rows(batch.total) : batch.size;
  const std::size_t known = program.function->programs();
  slow_.before();
  const TensorList out = global_ ? program.function->call(fields, GlobalRows{rows}) : program.function->call(fields);
  slow_.after(program.function->programs() != known);
  result_.rows += batch.size;
  const Returned& returned = *program.returned;
  std::size_t next = 0;
  const Tensor loss = out[next++], weights = returned.weight ? out[next++] : Tensor();
  if (late_) {
    late_->send(loss, weights, static_cast<double>(rows));
    result_.late = true;
  } else {
    const double weight = weights.defined() ? weights.item() : static_cast<double>(rows);
    loss_sum_ += loss.item() * weight;
    result_.weight += weight;
  }
  if (returned.prediction) result_.values.prediction = out[next++];
  result_.values.activations.clear();
  for (const auto& name : returned.activations) result_.values.activations.push_back({name, out[next++]});
  put_rows(out, returned, next);
  take(out, returned, next);
}

// Reads the outputs that finish() appended.
void StepPrograms::take(const TensorList& out, const Returned& returned, std::size_t next) {
  for (const auto& name : returned.gradients) result_.values.gradients.push_back({name, out[next++]});
  if (returned.norm) result_.gradient_norm = out[next++].item();
  if (returned.skip) result_.skipped = out[next++].item() != 0;
  if (!returned.judged.empty()) read_flags(out[next++], returned);
}

void StepPrograms::read_flags(const Tensor& finite, const Returned& returned) {
  const Tensor flags = data::on_host(finite);
  std::size_t bad = 0;
  for (std::size_t i = 0; i < returned.judged.size(); ++i) {
    if (flags.data<bool>()[i]) continue;
    if (bad++ == 0) result_.non_finite = returned.judged[i];
  }
  if (bad > 1) result_.non_finite += fmt::format(" and {} more", bad - 1);
  result_.skipped = bad > 0;
}

StepPrograms::Result StepPrograms::end() {
  result_.loss = result_.weight > 0 ? loss_sum_ / result_.weight : 0;
  double weight = result_.weight;
  if (exchanges_) {
    weight = exchange();
  } else if (split_ && options_.non_finite == NonFinite::skip && !scaler_ && !std::isfinite(result_.loss)) {
    drop_gradients();
    result_.non_finite = kTheLoss;
    result_.skipped = true;
  } else if (split_ && (weight > 0 || !ranks_)) {
    update();
  } else if (split_) {
    drop_gradients();  // of no samples: they are no part of the next step's
  }
  if (ranks_) ranks_->after_update(step_, result_.non_finite.empty() ? weight : 0);
  return std::move(result_);
}

// The random generator moves on as it does in a step that is made, so that later noise is that of other runs.
StepPrograms::Result StepPrograms::leave_out(std::int64_t batches) {
  const bool updates = split_ && !(ranks_ && ranks_->updates());
  for (std::int64_t i = 0; i < (split_ ? batches : 1) + (updates ? 1 : 0); ++i) default_generator().next_step();
  if (exchanges_) exchange();
  if (ranks_) ranks_->after_update(step_, 0);
  result_.skipped = true;
  return std::move(result_);
}

void StepPrograms::drop_gradients() const {
  for (const auto& parameter : net_.parameters()) parameter.set_grad(Tensor());
}

// Exchanges gradients; all ranks pass the same number in the same order, with or without rows. Returns the weight of
// the update that was made; 0: none.
double StepPrograms::exchange() {
  const NoGrad no_grad;
  const double weight = result_.weight;
  const double factor =
      options_.accumulate > 1 && weight > 0 ? static_cast<double>(options_.batch) / weight : 1;  // sums to means
  gradients_.clear();
  for (const auto& [name, parameter] : net_.named_parameters()) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) {
      gradient = zeros(parameter.shape(), parameter.dtype(), parameter.device());
    } else if (is_row_sparse(gradient) ? factor != 1 || !ranks_->takes_rows() : factor != 1 || !gradient.contiguous()) {
      gradient = mul(dense(gradient), factor);
    }
    if (parameter.requires_grad()) parameter.set_grad(gradient);
    gradients_.push_back({name, gradient});
  }
  dist::GradientStep step{.step = step_, .weight = weight, .gradients = gradients_};
  // A strategy that makes the updates itself must not get non-finite gradients, which would spoil all ranks' weights.
  if (ranks_->updates() && weight > 0) {
    const bool loss = leaves_out_bad_losses(options_) && !std::isfinite(result_.loss);
    if (loss || judges_) step.not_finite = loss ? kTheLoss : dist::first_non_finite(gradients_);
    if (!step.not_finite.empty()) step.weight = 0;
  }
  ranks_->exchange(step);
  if (!step.not_finite.empty()) {
    result_.skipped = true;
    result_.non_finite = step.not_finite == kTheLoss ? step.not_finite : fmt::format("'{}'", step.not_finite);
  }
  if (step.weight > 0 && !ranks_->updates()) {
    update();
  } else {
    drop_gradients();
  }
  gradients_.clear();
  return step.weight;
}

// Makes one update from the accumulated gradients, divided by their weight.
void StepPrograms::update() {
  // Exchanged gradients are means already.
  const double summed = result_.weight > 0 ? static_cast<double>(options_.batch) / result_.weight : 0;
  const double factor = exchanges_ ? 1 : summed;
  copy_into(inverse_, to(from_doubles({&factor, 1}, {}), device_));
  Program& program = updates_[wants_.gradients ? 1 : 0];
  if (!program.function) {
    program.returned = std::make_shared<Returned>();
    program.function = std::make_unique<CompiledFunction>(
        [this, gradients = wants_.gradients, returned = program.returned](std::span<const Tensor>) {
          const NoGrad no_grad;
          *returned = {};
          returned->wants_gradients = gradients;
          // The tracer must see the parameters while they still hold the summed gradients.
          if (graph::Tracer* tracer = current_interpreter().tracer()) {
            for (const auto& parameter : net_.parameters()) tracer->value_of(parameter);
          }
          for (const auto& parameter : net_.parameters()) {
            if (parameter.grad().defined()) parameter.set_grad(optim::scaled_gradient(parameter.grad(), inverse_));
          }
          TensorList out;
          finish(out, *returned, Tensor());
          return out;
        },
        CompileOptions{.threads = options_.threads, .strategy = parts_});
  }
  take(program.function->call({}), *program.returned, 0);
}

}  // namespace starling::train
