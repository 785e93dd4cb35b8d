#include "starling/cli/bench_net.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/cli/cli.h"
#include "starling/data/safetensors.h"
#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/ops/random.h"

namespace starling::cli {
namespace {

constexpr optim::SgdOptions kSgd{.lr = 0.01, .momentum = 0.9};
constexpr std::int64_t kSeed = 1;

zoo::Setting setting_of(const BenchOptions& options) {
  zoo::Setting setting = zoo::published(zoo::find(options.net));
  if (options.batch > 0) setting.batch = options.batch;
  return setting;
}

nn::Sequential make_net(const BenchOptions& options) {
  const auto dtype = parse_dtype(options.dtype);
  const auto device = parse_device(options.device);
  if (!dtype || !is_float(*dtype))
    throw UsageError("[bench] expected a float dtype (f32, f64), got '" + options.dtype + "'");
  if (!device) throw UsageError("[bench] expected a device (cpu, cuda), got '" + options.device + "'");
  const zoo::Net& known = as_usage([&]() -> const zoo::Net& { return zoo::find(options.net); });
  manual_seed(kSeed);
  nn::Sequential net = known.make(setting_of(options).options);
  net.to(*dtype);
  net.to(*device);
  net.train(options.phase == "train");
  return net;
}

zoo::Batch make_batch(const BenchOptions& options) {
  const zoo::Batch batch = zoo::random_batch(zoo::find(options.net), setting_of(options), *parse_dtype(options.dtype));
  const Device device = *parse_device(options.device);
  return {to(batch.x, device), to(batch.y, device)};
}

}  // namespace

BenchNet::BenchNet(const BenchOptions& options)
    : train_(options.phase == "train"),
      eager_(options.mode == "eager"),
      net_(make_net(options)),
      batch_(make_batch(options)),
      optimizer_(net_.parameters(), kSgd),
      compiled_(function(), {.disable = {options.disable.begin(), options.disable.end()},
                             .threads = options.threads,
                             .memory_budget = static_cast<std::size_t>(options.budget_mb * 1e6),
                             .branches = options.branches}) {
  default_generator().to(batch_.x.device());  // steps advance it where they run
}

TensorList BenchNet::body(const Tensor& x, const Tensor& y) {
  if (!train_) {
    const NoGrad no_grad;
    return {net_(x)};
  }
  const Tensor error = loss(x, y);
  error.backward();
  optimizer_.step();
  return {error};
}

Tensor BenchNet::loss(const Tensor& x, const Tensor& y) { return zoo::loss(net_(x), y); }

TraceFn BenchNet::function() {
  return [this](std::span<const Tensor> in) { return body(in[0], in.size() > 1 ? in[1] : Tensor()); };
}

TraceFn BenchNet::gradients() {
  return [this](std::span<const Tensor> in) {
    const Tensor error = loss(in[0], in[1]);
    TensorList all{error};
    for (const auto& gradient : starling::gradients({&error, 1}, net_.parameters())) all.push_back(gradient);
    return all;
  };
}

std::vector<Tensor> BenchNet::arguments() const {
  return train_ ? std::vector<Tensor>{batch_.x, batch_.y} : std::vector<Tensor>{batch_.x};
}

std::vector<std::string> BenchNet::gradient_names() const {
  std::vector<std::string> names{"loss"};
  for (const auto& parameter : net_.parameters()) names.push_back("grad " + parameter.name());
  return names;
}

Tensor BenchNet::step() {
  if (eager_) return body(batch_.x, batch_.y)[0];
  const Tensor arguments[] = {batch_.x, batch_.y};
  return compiled_.call({arguments, train_ ? 2U : 1U})[0];
}

std::int64_t BenchNet::program_bytes() const {
  return eager_ ? 0 : static_cast<std::int64_t>(compiled_.memory_bytes());
}

std::int64_t BenchNet::variable_bytes() const {
  std::int64_t bytes = 0;
  const auto add = [&](const std::vector<std::pair<std::string, Tensor>>& named) {
    for (const auto& [name, tensor] : named)
      bytes += tensor.numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
  };
  add(net_.named_parameters());
  add(net_.named_buffers());
  if (train_) add(optimizer_.state());
  return bytes;
}

void BenchNet::export_to(const std::filesystem::path& file) const {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::vector<std::pair<std::string, Tensor>>& named) {
    std::string order;
    for (const auto& [name, tensor] : named) {
      tensors.push_back({name, tensor});
      order += (order.empty() ? "" : ",") + name;
    }
    return order;
  };
  const std::string order = add(net_.named_parameters()), buffers = add(net_.named_buffers());
  tensors.push_back({"input.x", batch_.x});
  tensors.push_back({"input.y", batch_.y});
  write_safetensors(file, tensors, {{"order", order}, {"buffers", buffers}}).value();
}

void BenchNet::import_from(const std::filesystem::path& file) {
  const SafetensorsFile saved = SafetensorsFile::open(file).value();
  const auto load = [&](const std::string& name, Tensor& into) {
    const Tensor from = saved.tensor(name);
    check(from.shape() == into.shape(), "[bench] {}: expected '{}' of {}, got {}", file.string(), name,
          to_string(into.shape()), to_string(from.shape()));
    const NoGrad no_grad;
    copy_into(into, to(cast(from, into.dtype()), into.device()));
  };
  for (auto& [name, tensor] : net_.named_parameters()) load(name, tensor);
  for (auto& [name, tensor] : net_.named_buffers()) load(name, tensor);
  load("input.x", batch_.x);
  load("input.y", batch_.y);
}

}  // namespace starling::cli
