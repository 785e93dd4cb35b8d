#include "starling/cli/bench/bench_net.h"

#include "starling/autograd/autograd.h"
#include "starling/base/config/config.h"
#include "starling/base/error.h"
#include "starling/cli/cli.h"
#include "starling/data/formats/safetensors.h"
#include "starling/nn/deferred_weights.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/bytes.h"
#include "starling/train/loop/autocast.h"

namespace starling::cli {
namespace {

const optim::SgdOptions kSgd{.lr = 0.01, .momentum = 0.9};
constexpr std::int64_t kSeed = 1;

zoo::Recipe find_recipe(const BenchOptions& options) {
  return as_usage([&] {
    zoo::Net net = zoo::nets().bench(options.net).net;
    if (!options.set.empty())
      net.options = net.kind->read(ConfigNode::parse(net.json().dump(), "bench", options.set), {});
    return net.make();
  });
}

// Weights begin where they are to lie: billions of them in a moment, and more than the host has room for.
std::shared_ptr<nn::Module> made_on(const zoo::Recipe& recipe, Device device) {
  if (device.kind != DeviceKind::cuda || nn::DeferredWeights::innermost() != nullptr) return recipe.make();
  nn::DeferredWeights deferred;
  auto net = recipe.make();
  for (const Tensor& parameter : net->parameters()) {
    if (deferred.holds(parameter)) deferred.make(parameter, device);
  }
  deferred.make_rest();
  return net;
}

std::shared_ptr<nn::Module> make_net(const zoo::Recipe& recipe, const BenchOptions& options) {
  const auto dtype = parse_dtype(options.dtype);
  const auto device = parse_device(options.device);
  if (!dtype || !is_float(*dtype))
    throw UsageError("[bench] expected a float dtype (f32, f64), got '" + options.dtype + "'");
  if (!device) throw UsageError("[bench] expected a device (cpu, cuda), got '" + options.device + "'");
  manual_seed(kSeed);
  auto net = made_on(recipe, *device);
  if (*dtype != DType::f32) net->to(*dtype);
  net->to(*device);
  net->train(options.phase == "train");
  return net;
}

TensorList make_batch(const zoo::Recipe& recipe, const BenchOptions& options) {
  const std::int64_t size = options.batch > 0 ? options.batch : zoo::nets().bench(options.net).batch;
  if (options.strategy) manual_seed(kSeed + options.strategy->rank());  // different rows per rank
  TensorList batch = zoo::random_batch(recipe, size, *parse_dtype(options.dtype));
  if (options.strategy) manual_seed(kSeed);  // noise spans the whole batch: same generator on all ranks
  for (Tensor& field : batch) field = to(field, *parse_device(options.device));
  return batch;
}

std::vector<NamedTensor> named(const std::vector<std::pair<std::string, Tensor>>& pairs) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : pairs) tensors.push_back({name, tensor});
  return tensors;
}

// Names in files: x, y, then numbered.
std::string input_name(std::size_t i) {
  return "input." + (i == 0 ? std::string("x") : i == 1 ? std::string("y") : "y" + std::to_string(i));
}

}  // namespace

BenchNet::BenchNet(const BenchOptions& options)
    : train_(options.phase == "train"),
      eager_(options.mode == "eager"),
      precision_(as_usage([&] { return parse_precision(options.precision); })),
      recipe_(find_recipe(options)),
      net_(make_net(recipe_, options)),
      batch_(make_batch(recipe_, options)),
      optimizer_(net_->parameters(), kSgd),
      strategy_(options.strategy),
      compile_options_({.disable = {options.disable.begin(), options.disable.end()},
                        .threads = options.threads,
                        .memory_budget = static_cast<std::size_t>(options.budget_mb * 1e6),
                        .branches = options.branches,
                        .strategy = options.strategy}),
      compiled_(function(), compile_options_) {
  default_generator().to(device());  // steps advance it on their device
  if (strategy_)
    strategy_->begin({.weights = named(net_->named_parameters()),
                      .buffers = named(net_->named_buffers()),
                      .optimizer = named(optimizer_.state()),
                      .rule = &optimizer_});
}

TensorList BenchNet::body(std::span<const Tensor> fields) {
  if (!train_) {
    const NoGrad no_grad;
    const train::Autocast autocast(precision_);
    return {(*net_)(fields[0])};
  }
  const Tensor error = loss_of(fields);
  error.backward();
  optimizer_.step();
  return {error};
}

Tensor BenchNet::loss_of(std::span<const Tensor> fields) {
  const train::Autocast autocast(precision_);
  const Tensor loss = zoo::loss(recipe_, *net_, fields);
  return is_half(loss.dtype()) ? cast(loss, DType::f32) : loss;
}

graph::TraceFn BenchNet::function() {
  return [this](std::span<const Tensor> in) { return body(in); };
}

graph::TraceFn BenchNet::gradients() {
  return [this](std::span<const Tensor> in) {
    const Tensor error = loss_of(in);
    TensorList all{error};
    for (const auto& gradient : starling::gradients({&error, 1}, net_->parameters())) all.push_back(gradient);
    return all;
  };
}

std::vector<Tensor> BenchNet::arguments() const { return {batch_.begin(), train_ ? batch_.end() : batch_.begin() + 1}; }

std::vector<std::string> BenchNet::gradient_names() const {
  std::vector<std::string> names{"loss"};
  for (const auto& parameter : net_->parameters()) names.push_back("grad " + parameter.name());
  return names;
}

Tensor BenchNet::step() {
  const auto in = fields().first(train_ ? batch_.size() : 1);
  if (strategy_) return step_of_rank(in);
  return eager_ ? body(in)[0] : compiled_.call(in)[0];
}

Tensor BenchNet::step_of_rank(std::span<const Tensor> fields) {
  const std::int64_t all = batch() * strategy_->world();
  Tensor loss = compiled_.call(fields, GlobalRows{strategy_->program_rows(all)})[0];
  strategy_->after_update(steps_++, static_cast<double>(all));
  return loss;
}

std::int64_t BenchNet::program_bytes() const {
  return eager_ ? 0 : static_cast<std::int64_t>(compiled_.memory_bytes());
}

std::int64_t BenchNet::variable_bytes() const {
  std::int64_t bytes = 0;
  const auto add = [&](const std::vector<std::pair<std::string, Tensor>>& pairs) {
    for (const auto& [name, tensor] : pairs) bytes += static_cast<std::int64_t>(bytes_of(tensor));
  };
  add(net_->named_parameters());
  add(net_->named_buffers());
  if (train_) add(optimizer_.state());
  return bytes;
}

void BenchNet::export_to(const std::filesystem::path& file) const {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::vector<std::pair<std::string, Tensor>>& pairs) {
    std::string order;
    for (const auto& [name, tensor] : pairs) {
      tensors.push_back({name, tensor});
      order += (order.empty() ? "" : ",") + name;
    }
    return order;
  };
  const std::string order = add(net_->named_parameters()), buffers = add(net_->named_buffers());
  for (std::size_t i = 0; i < batch_.size(); ++i) tensors.push_back({input_name(i), batch_[i]});
  data::write_safetensors(file, tensors, {{"order", order}, {"buffers", buffers}}).value();
}

void BenchNet::import_from(const std::filesystem::path& file) {
  const data::SafetensorsFile saved = data::SafetensorsFile::open(file).value();
  const auto load = [&](const std::string& name, Tensor& into) {
    const Tensor from = saved.tensor(name);
    check(from.shape() == into.shape(), "[bench] {}: expected '{}' of {}, got {}", file.string(), name,
          to_string(into.shape()), to_string(from.shape()));
    const NoGrad no_grad;
    copy_into(into, to(cast(from, into.dtype()), into.device()));
  };
  for (auto& [name, tensor] : net_->named_parameters()) load(name, tensor);
  for (auto& [name, tensor] : net_->named_buffers()) load(name, tensor);
  for (std::size_t i = 0; i < batch_.size(); ++i) load(input_name(i), batch_[i]);
}

}  // namespace starling::cli
