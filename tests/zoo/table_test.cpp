// Networks by name: options checked and documented, options derived from the data, shapes of batches.
#include <gtest/gtest.h>

#include "starling/starling.h"

namespace starling {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

zoo::Net choose(const std::string& yaml) { return zoo::nets().choose(ConfigNode::parse(yaml, "job.yaml")); }

TEST(ZooTable, AJobChoosesANetworkWithItsOptions) {
  const zoo::Net net = choose("{name: resnet_small, depth: 3, filters: 8}");
  EXPECT_EQ(net.json()["depth"], 3);
  EXPECT_EQ(net.json()["classes"], 10);
  const auto made = net.make().make();
  EXPECT_EQ(made->named_parameters()[0].second.shape(), (Shape{8, 1, 3, 3}));
}

TEST(ZooTable, WrongNamesOptionsAndValuesAreRefusedWithTheirPlace) {
  EXPECT_NE(error_of([] { choose("{name: resnet_smal}"); }).find("did you mean 'resnet_small'"), std::string::npos);
  const std::string key = error_of([] { choose("{name: resnet_small,\n dept: 3}"); });
  EXPECT_NE(key.find("job.yaml:2:"), std::string::npos) << key;
  EXPECT_NE(key.find("depth"), std::string::npos) << key;
  const std::string value = error_of([] { choose("{name: resnet_small, depth: 0}"); });
  EXPECT_NE(value.find("job.yaml:1:"), std::string::npos) << value;
  EXPECT_NE(error_of([] { zoo::nets().small("lenett"); }).find("lenet"), std::string::npos);
}

TEST(ZooTable, OptionsChangeByKey) {
  const zoo::Net net = zoo::with(zoo::nets().by_name("mlp"), {{"hidden", {32, 16}}, {"classes", 3}});
  EXPECT_EQ(net.make().fields[1].below, 3);
  const auto made = net.make().make();
  EXPECT_EQ(made->parameter_count(), 784 * 32 + 32 + 32 * 16 + 16 + 16 * 3 + 3);
  EXPECT_NE(error_of([&] { zoo::with(net, {{"depth", 2}}); }), "no error");
}

TEST(ZooTable, DataSaysWhatTheUserLeavesOpen) {
  const zoo::DataFacts colour{.classes = 7, .sample = {3, 32, 32}};
  const auto open = zoo::fitted(zoo::nets().by_name("resnet_small"), colour).json();
  EXPECT_EQ(open["classes"], 7);
  EXPECT_EQ(open["channels"], 3);
  EXPECT_EQ(open["image"], 32);
  const std::vector<std::string> given{"classes"};
  EXPECT_EQ(zoo::fitted(zoo::nets().by_name("resnet_small"), colour, given).json()["classes"], 10);
  EXPECT_EQ(zoo::fitted(zoo::nets().by_name("mlp"), colour).json()["inputs"], 3 * 32 * 32);
  const auto text = zoo::fitted(zoo::nets().by_name("gpt"), {.vocabulary = 99, .sample = {48}}).json();
  EXPECT_EQ(text["vocabulary"], 99);
  EXPECT_EQ(text["tokens"], 48);
}

TEST(ZooTable, EveryNetworkIsDocumentedAndDescribesItsBatch) {
  for (const std::string& name : zoo::nets().names()) {
    SCOPED_TRACE(name);
    const zoo::Sized small = zoo::nets().small(name);
    EXPECT_FALSE(small.net.kind->doc.empty());
    for (const auto& setting : small.net.kind->settings) EXPECT_FALSE(setting.doc.empty()) << setting.key;
    EXPECT_EQ(zoo::with(small.net, nlohmann::json::object()).json(), small.net.json());
    const zoo::Recipe recipe = small.net.make();
    const TensorList batch = zoo::random_batch(recipe, small.batch);
    ASSERT_EQ(batch.size(), recipe.fields.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Shape shape = recipe.fields[i].sample;
      shape.insert(0, small.batch);
      EXPECT_EQ(batch[i].shape(), shape);
      EXPECT_EQ(batch[i].dtype(), recipe.fields[i].below > 0 ? DType::i64 : DType::f32);
    }
  }
}

}  // namespace
}  // namespace starling
