// Layers against PyTorch's modules: outputs, gradients of parameters and inputs, and buffers, from tests/golden/layers
// (made by tests/golden/generate_layers.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "starling/data/formats/safetensors.h"
#include "starling/nn/layer_kinds.h"
#include "starling/starling.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files() {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(fs::path(STARLING_GOLDEN_FOLDER) / "layers")) {
    if (entry.path().extension() == ".safetensors") all.push_back(entry.path());
  }
  return all;
}

double difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  const auto x = a.to_vector(), y = b.to_vector();
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]) / (1 + std::abs(y[i])));
  return most;
}

constexpr double kTolerance = 1e-6;  // results are kept in f32

struct Golden {
  const data::SafetensorsFile& file;
  std::string name;
  nlohmann::json about;

  bool has(const std::string& what) const { return file.contains(name + "/" + what); }
  // Floats as doubles, in which PyTorch computed.
  Tensor get(const std::string& what) const {
    const Tensor x = file.tensor(name + "/" + what);
    return is_float(x.dtype()) ? cast(x, DType::f64) : x;
  }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all;
    for (int i = 0; i < about["inputs"].get<int>(); ++i) {
      const std::string in = "in" + std::to_string(i);
      all.push_back(has(in) ? get(in) : Tensor());
      if (all.back().defined() && is_float(all.back().dtype())) all.back().set_requires_grad();
    }
    return all;
  }
  // Entries under a prefix such as "param/", named without it.
  nn::NamedTensors named(const std::string& what) const {
    nn::NamedTensors all;
    const std::string prefix = name + "/" + what + "/";
    for (const auto& entry : file.entries()) {
      if (entry.name.starts_with(prefix))
        all.emplace_back(entry.name.substr(prefix.size()), cast(file.tensor(entry.name), DType::f64));
    }
    return all;
  }
};

std::shared_ptr<nn::Module> made(const Golden& golden, const std::vector<Tensor>& inputs) {
  std::vector<TensorType> samples;
  for (std::size_t i = 0; i < golden.about["samples"].get<std::size_t>(); ++i) {
    TensorType type = inputs[i].type();
    type.shape.erase(0);
    samples.push_back(type);
  }
  const auto options = ConfigNode::parse(golden.about["options"], golden.name);
  const auto chosen = nn::layer_kinds().choose_named(golden.about["kind"], options, options);
  const auto layer = chosen.make()(samples);
  layer->to(DType::f64);
  return layer;
}

void compare(const Golden& golden) {
  const auto inputs = golden.inputs();
  const auto layer = made(golden, inputs);
  nn::NamedTensors state = golden.named("param");
  for (auto& entry : golden.named("before")) state.push_back(entry);
  layer->load_state(state);
  layer->train(golden.about["train"].get<bool>());
  const TensorList out = (*layer)(std::span<const Tensor>(inputs));
  for (std::size_t i = 0; golden.has("out" + std::to_string(i)); ++i) {
    ASSERT_LT(i, out.size());
    EXPECT_LE(difference(out[i], golden.get("out" + std::to_string(i))), kTolerance) << "output " << i;
  }
  out[0].backward(golden.get("seed"));
  for (const auto& [name, parameter] : layer->named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_LE(difference(parameter.grad(), golden.get("grad/" + name)), kTolerance) << "gradient of " << name;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string grad = "grad_in" + std::to_string(i);
    if (!golden.has(grad)) continue;
    EXPECT_LE(difference(inputs[i].grad(), golden.get(grad)), kTolerance) << grad;
  }
  for (const auto& [name, buffer] : layer->named_buffers())
    EXPECT_LE(difference(buffer, golden.get("after/" + name)), kTolerance) << "buffer " << name;
}

TEST(GoldenLayers, ComputeWhatPyTorchComputes) {
  int cases = 0;
  for (const auto& path : files()) {
    const auto file = data::SafetensorsFile::open(path).value();
    for (const auto& [name, about] : file.metadata()) {
      SCOPED_TRACE(name + " " + about);
      try {
        compare({file, name, nlohmann::json::parse(about)});
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 120);
}

// Layers without a PyTorch counterpart have their own tests.
TEST(GoldenLayers, CoverEveryKindOrSayWhyNot) {
  std::set<std::string> seen;
  for (const auto& path : files()) {
    const auto file = data::SafetensorsFile::open(path).value();
    for (const auto& [name, about] : file.metadata()) seen.insert(name.substr(0, name.find('/')));
  }
  const std::set<std::string> elsewhere = {"local_contrast_norm",  // the op is compared in tests/ops
                                           "gaussian_noise",       // noise of our own keys
                                           "residual",
                                           "parallel",
                                           "repeat",
                                           "sequential"};  // containers: declared_test.cpp
  for (const auto& name : nn::layer_kinds().names()) {
    EXPECT_TRUE(seen.contains(name) || elsewhere.contains(name)) << name;
    EXPECT_FALSE(seen.contains(name) && elsewhere.contains(name)) << name;
  }
}

}  // namespace
}  // namespace starling
