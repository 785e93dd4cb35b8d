#include "starling/nn/declared.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "starling/nn/layer_kinds.h"
#include "starling/starling.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using testing::error_of;

std::shared_ptr<nn::Module> net_of(const std::string& yaml, const Shape& sample) {
  return nn::declared_net(ConfigNode::parse(yaml, "net.yaml"), sample);
}

std::string refused(const std::string& yaml, const Shape& sample) {
  return error_of([&] { net_of(yaml, sample); });
}

void expect_same_parameters(const nn::Module& a, const nn::Module& b) {
  const auto x = a.state(), y = b.state();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i].first, y[i].first);
    EXPECT_EQ(x[i].second.shape(), y[i].second.shape()) << x[i].first;
    EXPECT_EQ(x[i].second.to_vector(), y[i].second.to_vector()) << x[i].first;
  }
}

// Output of a network for x, initialised from a seed.
template <class F>
auto seeded(F&& make) {
  const SiteCounts sites;
  manual_seed(11);
  return make();
}

TEST(DeclaredNet, LeNetIsTheZoosParameterForParameter) {
  const auto declared = seeded([] {
    return net_of(R"(
- {conv2d: {out: 20, kernel: 5}, name: conv1}
- {max_pool2d: {}, name: pool1}
- {tanh: {}, name: tanh1}
- {conv2d: {out: 50, kernel: 5}, name: conv2}
- {max_pool2d: {}, name: pool2}
- {tanh: {}, name: tanh2}
- flatten
- {linear: {out: 500}, name: fc1}
- relu
- {linear: {out: 10}, name: fc2}
)",
                  {1, 28, 28});
  });
  auto zoo = seeded([] { return zoo::lenet(); });
  expect_same_parameters(*declared, zoo);
  const Tensor x = normal({3, 1, 28, 28});
  EXPECT_EQ((*declared)(x).to_vector(), zoo(x).to_vector());
}

TEST(DeclaredNet, ResidualBlocksAreThoseWrittenInCpp) {
  const auto declared = seeded([] {
    return net_of(R"(
- {conv2d: {out: 8, padding: 1, bias: false}, name: conv}
- {batch_norm2d: {}, name: norm}
- {relu: {}, name: act}
- residual:
    body:
      - {conv2d: {out: 16, stride: 2, padding: 1, bias: false}, name: conv1}
      - {batch_norm2d: {}, name: norm1}
      - {relu: {}, name: relu1}
      - {conv2d: {out: 16, padding: 1, bias: false}, name: conv2}
      - {batch_norm2d: {weight: 0}, name: norm2}
    shortcut:
      - {conv2d: {out: 16, kernel: 1, stride: 2, bias: false}, name: conv}
      - {batch_norm2d: {}, name: norm}
  name: block
- {relu: {}, name: out}
- {global_avg_pool: {}, name: pool}
- {linear: {out: 5}, name: fc}
)",
                  {3, 8, 8});
  });
  auto written = seeded([] {
    nn::Sequential net, body, shortcut;
    net.add("conv", nn::Conv2d({.in = 3, .out = 8, .padding = 1, .bias = false}))
        .add("norm", nn::BatchNorm2d({.channels = 8}))
        .add("act", nn::Relu());
    body.add("conv1", nn::Conv2d({.in = 8, .out = 16, .stride = 2, .padding = 1, .bias = false}))
        .add("norm1", nn::BatchNorm2d({.channels = 16}))
        .add("relu1", nn::Relu())
        .add("conv2", nn::Conv2d({.in = 16, .out = 16, .padding = 1, .bias = false}))
        .add("norm2", nn::BatchNorm2d({.channels = 16, .weight = 0}));
    shortcut.add("conv", nn::Conv2d({.in = 8, .out = 16, .kernel = 1, .stride = 2, .bias = false}))
        .add("norm", nn::BatchNorm2d({.channels = 16}));
    net.add("block", nn::Residual(body, shortcut))
        .add("out", nn::Relu())
        .add("pool", nn::GlobalAvgPool())
        .add("fc", nn::Linear({.in = 16, .out = 5}));
    return net;
  });
  expect_same_parameters(*declared, written);
  const Tensor x = normal({4, 3, 8, 8});
  EXPECT_EQ((*declared)(x).to_vector(), written(x).to_vector());
}

TEST(DeclaredNet, InceptionBranchesStandBesideEachOther) {
  const std::string inception = R"(
- parallel:
    branches:
      - [{conv2d: {out: 4, kernel: 1}}, relu]
      - [{conv2d: {out: 3, kernel: 1}}, relu, {conv2d: {out: 6, kernel: 3, padding: 1}}, relu]
      - [{max_pool2d: {kernel: 3, stride: 1, padding: 1}}, {conv2d: {out: 2, kernel: 1}}]
      - []
    join: concat
- {conv2d: {out: 5, kernel: 1}}
)";
  const auto net = seeded([&] { return net_of(inception, {7, 6, 6}); });
  auto written = seeded([] {
    nn::Sequential a, b, c, all;
    a.add("conv2d_1", nn::Conv2d({.in = 7, .out = 4, .kernel = 1})).add("relu_1", nn::Relu());
    b.add("conv2d_1", nn::Conv2d({.in = 7, .out = 3, .kernel = 1}))
        .add("relu_1", nn::Relu())
        .add("conv2d_2", nn::Conv2d({.in = 3, .out = 6, .kernel = 3, .padding = 1}))
        .add("relu_2", nn::Relu());
    c.add("max_pool2d_1", nn::MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}))
        .add("conv2d_1", nn::Conv2d({.in = 7, .out = 2, .kernel = 1}));
    nn::Parallel block;
    block.add("branch1", a).add("branch2", b).add("branch3", c).add("branch4", nn::Identity());
    all.add("parallel_1", block).add("conv2d_1", nn::Conv2d({.in = 19, .out = 5, .kernel = 1}));
    return all;
  });
  const Tensor x = normal({2, 7, 6, 6});
  expect_same_parameters(*net, written);
  EXPECT_EQ((*net)(x).to_vector(), written(x).to_vector());
  EXPECT_EQ((*net)(x).shape(), (Shape{2, 5, 6, 6}));
  EXPECT_EQ(net->find("conv2d_1").parameters()[0].shape(), (Shape{5, 4 + 6 + 2 + 7, 1, 1}));
  const Tensor joined = net->find("parallel_1")(x);
  const Tensor first = net->find("parallel_1").find("branch1")(x);
  EXPECT_EQ(narrow(joined, 1, 0, 4).to_vector(), first.to_vector());
  EXPECT_EQ(narrow(joined, 1, 12, 7).to_vector(), x.to_vector()) << "an empty branch hands on its input";
}

TEST(DeclaredNet, WiresLayersByTheirNames) {
  const auto net = seeded([] {
    return net_of(R"(
- {linear: {out: 3}, name: a}
- {tanh: {}, name: act}
- {linear: {out: 3}, name: b, from: input}
- {add: {}, from: [act, b]}
- {mul: {}, from: [add_1, input, act]}
)",
                  {3});
  });
  const Tensor x = normal({2, 3});
  const Tensor act = tanh(net->find("a")(x)), sum = add(act, net->find("b")(x));
  EXPECT_EQ((*net)(x).to_vector(), mul(mul(sum, x), act).to_vector());
}

TEST(DeclaredNet, RepeatsLayersWithWeightsOfTheirOwnOrShared) {
  const std::string block = "layers: [{linear: {out: 6}}, relu]";
  EXPECT_EQ(net_of("[{repeat: {times: 3, " + block + "}}]", {4})->parameter_count(), 4 * 6 + 6 + 2 * (36 + 6));
  const auto shared = net_of("[{repeat: {times: 3, share: true, " + block + "}}]", {6});
  EXPECT_EQ(shared->parameter_count(), 36 + 6);
  const Tensor x = normal({2, 6});
  nn::Module& body = shared->find("repeat_1.body");
  EXPECT_EQ((*shared)(x).to_vector(), body(body(body(x))).to_vector());
}

TEST(DeclaredNet, ReadsIdsWhereTheFirstLayerLooksThemUp) {
  const auto net = net_of(R"(
- embedding: {vocabulary: 20, width: 8}
- sinusoidal_positions
- transformer_encoder: {heads: 2, layers: 2, causal: true}
- gru: {hidden: 5, bidirectional: true, output: last}
- linear: {out: 3}
)",
                          {7});
  EXPECT_EQ((*net)(randint({2, 7}, {.high = 20})).shape(), (Shape{2, 3}));
}

TEST(DeclaredNet, BeginsAsInitSays) {
  const auto net = net_of("[{linear: {out: 4, init: identity, bias_init: {kind: constant, value: 2}}}]", {4});
  const Tensor x = normal({2, 4});
  EXPECT_EQ((*net)(x).to_vector(), add(x, 2.0).to_vector());
  EXPECT_NE(refused("[{linear: {out: 4, init: he_nromal}}]", {4}).find("did you mean 'he_normal'"), std::string::npos);
}

TEST(DeclaredNet, MakingItDrawsNothingButParameters) {
  const auto after = [](bool noisy) {
    return seeded([&] {
      net_of(noisy ? "[{linear: {out: 4}}, dropout, gaussian_noise]" : "[{linear: {out: 4}}]", {4});
      return normal({3}).to_vector();
    });
  };
  EXPECT_EQ(after(true), after(false));
}

TEST(DeclaredNet, RefusesWithThePlaceAndTheNearest) {
  EXPECT_EQ(refused("- relu\n- {linaer: {out: 3}}", {3}).substr(0, 22), "net.yaml:2:4: [config]");
  EXPECT_NE(refused("- relu\n- {linaer: {out: 3}}", {3}).find("got 'linaer' (did you mean 'linear'?)"),
            std::string::npos);
  EXPECT_NE(refused("- relu\n- relo", {3})
                .find("net.yaml:2:3: [config] expected the name of a layer for 1, got 'relo' "
                      "(did you mean 'relu'?)"),
            std::string::npos);
  EXPECT_NE(refused("- linear: {uot: 3}", {3}).find("got 'uot' (did you mean 'out'?)"), std::string::npos);
  EXPECT_NE(refused("- linear: {out: 3, bias: maybe}", {3}).find("net.yaml:1:26"), std::string::npos);
  EXPECT_NE(refused("- linear", {3}).find("linear: {out: …}"), std::string::npos);
  EXPECT_NE(refused("- linear: {}", {3}).find("the key 'out'"), std::string::npos);
  EXPECT_NE(refused("- {relu: {}, tanh: {}}", {3}).find("expected one layer"), std::string::npos);
  EXPECT_NE(refused("[]", {3}).find("at least one layer"), std::string::npos);
}

TEST(DeclaredNet, RefusesNamesThatLeadNowhere) {
  EXPECT_NE(refused("- {relu: {}, name: act}\n- {tanh: {}, from: atc}", {3})
                .find("net.yaml:2:20: [config] expected the name of a layer before 'tanh_1' for 1.from, got 'atc' (did "
                      "you mean 'act'?)"),
            std::string::npos);
  EXPECT_NE(refused("- {relu: {}, from: later}\n- {tanh: {}, name: later}", {3}).find("got 'later'"), std::string::npos)
      << "only layers before: no circles";
  EXPECT_NE(refused("- {relu: {}, name: act, from: act}", {3}).find("got 'act'"), std::string::npos);
  EXPECT_NE(refused("- {relu: {}, name: a}\n- {tanh: {}, name: a}", {3}).find("'a' again"), std::string::npos);
  EXPECT_NE(refused("- {relu: {}, name: input}", {3}).find("other than 'input'"), std::string::npos);
}

TEST(DeclaredNet, RefusesLayersThatNobodyReads) {
  EXPECT_NE(refused("- {relu: {}, name: lost}\n- {tanh: {}, from: input}", {3})
                .find("net.yaml:1:3: [config] expected somebody to read what 'lost' makes for 0, got nobody"),
            std::string::npos);
}

TEST(DeclaredNet, ShapeErrorsNameTheLayerAndBothShapes) {
  EXPECT_EQ(refused("- flatten\n- {conv2d: {out: 3}, name: conv9}", {3, 4, 4}),
            "net.yaml:2:3: [layers] expected 'conv9' (conv2d) to fit samples f32[48], got: [conv2d] expected samples "
            "[c, h, w], got f32[48]");
  const std::string add = refused("- {linear: {out: 4}, name: a}\n- {add: {}, from: [a, input]}", {3});
  EXPECT_NE(add.find("net.yaml:2:3"), std::string::npos) << add;
  EXPECT_NE(add.find("f32[4] and f32[3]"), std::string::npos) << add;
  const std::string inner = refused("- residual:\n    body:\n      - {conv2d: {out: 5, kernel: 9}}", {3, 4, 4});
  EXPECT_NE(inner.find("net.yaml:3:9: [layers] expected 'conv2d_1' to fit samples f32[3, 4, 4]"), std::string::npos)
      << inner;
  const std::string uneven = refused("- residual: {body: [{conv2d: {out: 5}}]}", {3, 4, 4});
  EXPECT_NE(uneven.find("got f32[5, 2, 2] and f32[3, 4, 4]"), std::string::npos) << uneven;
}

TEST(DeclaredNet, ListsAreCheckedWithoutSamplesToo) {
  const auto check = [](const std::string& yaml) {
    return error_of([&] { nn::check_layers(ConfigNode::parse(yaml, "net.yaml")); });
  };
  EXPECT_EQ(check("[{linear: {out: 3}}, relu]"), "");
  EXPECT_NE(check("- repeat: {times: 2, layers: [relu, relo]}").find("did you mean 'relu'"), std::string::npos);
  EXPECT_NE(check("- parallel: {branches: [[relu], [{linear: {out: x}}]]}").find("net.yaml:1:49"), std::string::npos);
}

TEST(DeclaredNet, TheSchemaDescribesEveryKindAndItself) {
  const auto schema = nn::layers_schema();
  const auto& layer = schema.at("$defs").at("layer").at("oneOf");
  EXPECT_EQ(layer.size(), nn::layer_kinds().all().size() + 1);
  bool nested = false;
  for (const auto& one : layer) {
    if (one.contains("properties") && one["properties"].contains("residual"))
      nested = one["properties"]["residual"]["properties"]["body"].at("$ref") == "#/$defs/layers";
  }
  EXPECT_TRUE(nested) << "lists within lists";
}

TEST(DeclaredNet, TheExampleInTheDocumentationIsANetwork) {
  const std::string text =
      testing::read_text(std::filesystem::path(STARLING_SOURCE_FOLDER) / "docs" / "declared_nets.md");
  const std::size_t begin = text.find("```yaml\n") + 8, end = text.find("```", begin);
  ASSERT_NE(end, std::string::npos);
  const auto job = ConfigNode::parse(text.substr(begin, end - begin), "declared_nets.md");
  const auto net = nn::declared_net(job.at("model").at("layers"), Shape{1, 28, 28});
  EXPECT_EQ((*net)(normal({2, 1, 28, 28})).shape(), (Shape{2, 10}));
}

TEST(DeclaredNet, CompiledItComputesTheSame) {
  const auto net = seeded([] {
    return net_of(R"(
- {conv2d: {out: 4}, name: a}
- {batch_norm2d: {}, name: n}
- {gelu: {}, name: g}
- {concat: {}, from: [g, n]}
- channel_dropout
- global_max_pool
- linear: {out: 2}
)",
                  {3, 6, 6});
  });
  net->eval();
  auto f = compile([&](const Tensor& x) { return (*net)(x); });
  const Tensor x = normal({2, 3, 6, 6});
  const auto a = (*net)(x).to_vector(), b = f(x).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

}  // namespace
}  // namespace starling
