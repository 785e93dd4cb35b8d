#pragma once

#include <functional>
#include <memory>
#include <span>

#include "starling/base/config/kinds.h"
#include "starling/nn/module.h"

namespace starling::nn {

// Factory of a layer for inputs whose samples have these types, without the batch axis. Sizes that follow from the
// inputs (channels, width) are inferred instead of asked of the user.
using LayerMaker = std::function<std::shared_ptr<Module>(std::span<const TensorType> samples)>;
using LayerKinds = Kinds<LayerMaker>;

// Layer factories by the names that job files use; built from the files in nn/kinds.
const LayerKinds& layer_kinds();

namespace detail {

inline std::shared_ptr<Module> shared(std::shared_ptr<Module> module) { return module; }
template <class M>
  requires std::derived_from<M, Module> std::shared_ptr<Module> shared(M module) {
    return std::make_shared<M>(std::move(module));
  }

}  // namespace detail

// Registers a layer with `least` to `most` inputs; `make(options, samples)` returns a module, or a shared pointer to
// one.
template <HasSettings Options, class F>
void add_joining_layer(LayerKinds& kinds, const std::string& name, std::string doc, std::size_t least, std::size_t most,
                       F make) {
  kinds.template add<Options>(name, std::move(doc), [=](const Options& options) -> LayerMaker {
    return [=](std::span<const TensorType> samples) -> std::shared_ptr<Module> {
      check(samples.size() >= least && samples.size() <= most, "[{}] expected {} inputs, got {}", name,
            least == most ? std::to_string(least) : fmt::format("{} to {}", least, most), samples.size());
      return detail::shared(make(options, samples));
    };
  });
}

// Registers a layer with one input: make(options, sample).
template <HasSettings Options, class F>
void add_layer(LayerKinds& kinds, const std::string& name, std::string doc, F make) {
  add_joining_layer<Options>(
      kinds, name, std::move(doc), 1, 1,
      [make](const Options& options, std::span<const TensorType> samples) { return make(options, samples[0]); });
}

// Registers a layer without options.
template <class M>
void add_plain_layer(LayerKinds& kinds, const std::string& name, std::string doc) {
  add_layer<NoSettings>(kinds, name, std::move(doc), [](const NoSettings&, const TensorType&) { return M(); });
}

// Number of channels of a sample [c, sizes..] with `axes` spatial axes; throws naming the layer.
std::int64_t channels_of(const char* layer, const TensorType& sample, int axes);
// Last size of a sample.
std::int64_t width_of(const char* layer, const TensorType& sample);

}  // namespace starling::nn
