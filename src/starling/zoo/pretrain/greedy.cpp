#include "starling/zoo/pretrain/greedy.h"

#include <chrono>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/data/loading/loader.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/runtime/compile.h"

namespace starling::zoo {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Outputs of the first `count` layers for a batch.
Tensor encode(const std::vector<DenseLayer>& layers, std::size_t count, const Tensor& batch) {
  const NoGrad no_grad;
  Tensor x = flatten(batch);
  for (std::size_t i = 0; i < count; ++i) x = sigmoid(linear(x, layers[i].weight, layers[i].bias));
  return x.detach();
}

double run_epoch(Loader& loader, CompiledFunction& step) {
  double sum = 0;
  std::int64_t samples = 0;
  while (const Batch* batch = loader.next()) {
    const double loss = step.call({batch->fields.data(), 1})[0].item();
    check(loss == loss, "[pretrain] expected a finite loss, got {}: a lower learning rate may help", loss);
    sum += loss * static_cast<double>(batch->size);
    samples += batch->size;
  }
  return samples > 0 ? sum / static_cast<double>(samples) : 0;
}

}  // namespace

std::vector<DenseLayer> hidden_layers(const nn::Module& net) {
  const auto named = net.named_parameters();
  std::vector<DenseLayer> layers;
  for (std::size_t i = 0; i + 1 < named.size(); ++i) {
    const auto& [name, weight] = named[i];
    const auto& [next, bias] = named[i + 1];
    if (weight.rank() != 2 || bias.rank() != 1 || !ends_with(name, "weight") || !ends_with(next, "bias")) continue;
    layers.push_back({name.substr(0, name.size() - std::string(".weight").size()), weight, bias});
  }
  check(layers.size() >= 2,
        "[pretrain] expected a network with dense layers before the one that answers, got {} layers", layers.size());
  layers.pop_back();
  for (std::size_t i = 1; i < layers.size(); ++i) {
    check(layers[i].weight.size(1) == layers[i - 1].weight.size(0),
          "[pretrain] expected dense layers one on another, got {} with {} inputs behind {} with {} outputs",
          layers[i].name, layers[i].weight.size(1), layers[i - 1].name, layers[i - 1].weight.size(0));
  }
  return layers;
}

std::vector<PretrainedLayer> train_greedily(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                            const GreedyOptions& options,
                                            const std::function<LayerStep(const DenseLayer&, std::size_t)>& step) {
  const std::vector<DenseLayer> layers = hidden_layers(net);
  check(!data->fields().empty() && data->fields()[0].shape.numel() == layers[0].weight.size(1),
        "[pretrain] expected samples of {} numbers, got {}", layers[0].weight.size(1),
        data->fields().empty() ? "none" : to_string(data->fields()[0]));
  const std::size_t count =
      options.layers > 0 ? std::min(layers.size(), static_cast<std::size_t>(options.layers)) : layers.size();
  manual_seed(options.seed);
  std::vector<PretrainedLayer> done;
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const LayerStep train = step(layers[i], i);
    CompiledFunction compiled([&](std::span<const Tensor> in) { return TensorList{train(encode(layers, i, in[0]))}; },
                              {.threads = options.threads});
    Loader loader(data, {.batch = std::min(options.batch, data->size()),
                         .seed = static_cast<std::uint64_t>(options.seed) + i,
                         .drop_last = true});
    PretrainedLayer layer{layers[i].name, {}, 0};
    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      layer.losses.push_back(run_epoch(loader, compiled));
      if (options.listener) options.listener(layer.name, epoch, layer.losses.back());
    }
    layer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    done.push_back(std::move(layer));
  }
  net.set_name(net.name());  // restores the names that temporary modules changed
  return done;
}

}  // namespace starling::zoo
