#include "starling/cli/bench_net.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/cli/cli.h"
#include "starling/data/safetensors.h"
#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/ops/loss.h"
#include "starling/ops/random.h"
#include "starling/zoo/zoo.h"

namespace starling::cli {
namespace {

constexpr optim::SgdOptions kSgd{.lr = 0.01, .momentum = 0.9};
constexpr std::int64_t kSeed = 1;

nn::Sequential make_net(const BenchOptions& options) {
  const auto dtype = parse_dtype(options.dtype);
  const auto device = parse_device(options.device);
  if (!dtype || !is_float(*dtype))
    throw UsageError("[bench] expected a float dtype (f32, f64), got '" + options.dtype + "'");
  if (!device) throw UsageError("[bench] expected a device (cpu, cuda), got '" + options.device + "'");
  const zoo::Net& known = as_usage([&]() -> const zoo::Net& { return zoo::find(options.net); });
  manual_seed(kSeed);
  nn::Sequential net = known.make({.classes = known.classes, .dropout = false});
  net.to(*dtype);
  net.to(*device);
  return net;
}

Tensor make_x(const BenchOptions& options) {
  const zoo::Net& net = zoo::find(options.net);
  Shape shape = net.sample;
  shape.insert(0, options.batch > 0 ? options.batch : net.batch);
  const Tensor x = normal(shape, {.dtype = *parse_dtype(options.dtype)});
  return to(x, *parse_device(options.device));
}

Tensor make_y(const BenchOptions& options, std::int64_t batch) {
  const std::int64_t classes = zoo::find(options.net).classes;
  Tensor y = empty({batch}, DType::i64);
  // Spread over the classes in no order that follows the samples.
  for (std::int64_t i = 0; i < batch; ++i) y.data<std::int64_t>()[i] = (i * 7919 + 13) % classes;
  return to(y, *parse_device(options.device));
}

}  // namespace

BenchNet::BenchNet(const BenchOptions& options)
    : train_(options.phase == "train"),
      eager_(options.mode == "eager"),
      net_(make_net(options)),
      x_(make_x(options)),
      y_(make_y(options, x_.size(0))),
      optimizer_(net_.parameters(), kSgd),
      compiled_(function(), {.disable = {options.disable.begin(), options.disable.end()}, .threads = options.threads}) {
  default_generator().to(x_.device());  // steps advance it where they run
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

Tensor BenchNet::loss(const Tensor& x, const Tensor& y) { return cross_entropy(net_(x), y); }

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
  return train_ ? std::vector<Tensor>{x_, y_} : std::vector<Tensor>{x_};
}

std::vector<std::string> BenchNet::gradient_names() const {
  std::vector<std::string> names{"loss"};
  for (const auto& parameter : net_.parameters()) names.push_back("grad " + parameter.name());
  return names;
}

Tensor BenchNet::step() {
  if (eager_) return body(x_, y_)[0];
  const Tensor arguments[] = {x_, y_};
  return compiled_.call({arguments, train_ ? 2U : 1U})[0];
}

void BenchNet::export_to(const std::filesystem::path& file) const {
  std::vector<NamedTensor> tensors;
  std::string order;
  for (auto& [name, tensor] : net_.named_parameters()) {
    tensors.push_back({name, tensor});
    order += (order.empty() ? "" : ",") + name;
  }
  tensors.push_back({"input.x", x_});
  tensors.push_back({"input.y", y_});
  write_safetensors(file, tensors, {{"order", order}}).value();
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
  load("input.x", x_);
  load("input.y", y_);
}

}  // namespace starling::cli
